"""`memory.yaml`: the settings of a process from a file, with environment twins and defaults.

schema     every field: its path, its setting, what may be written there
document   the text as what stands where, with lines
value      a scalar as the value of its field, references resolved
meaning    what a document means as settings
sources    which file, and what counts before what
page       the table of the docs, and the file that `substrate config init` writes
"""

from __future__ import annotations

from substrate.configuration.problem import Problem
from substrate.configuration.sources import Configuration, Mistaken, examine, load, read

__all__ = ["Configuration", "Mistaken", "Problem", "examine", "load", "read"]
