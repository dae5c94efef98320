"""`python -m substrate`: the command line."""

from __future__ import annotations

import sys

from substrate.doors.cli import main

sys.exit(main())
