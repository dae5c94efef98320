"""The embedded PostgreSQL: a server of our own, below the home folder, for those who bring none.

embedded     the server as others see it: start, stop, status, URLs
binaries     PostgreSQL's programs, from the wheel or the system
account      who runs them, since PostgreSQL refuses to run as root
folders      where things are, and who may enter
cluster      what is in the data folder: initdb, settings, roles
postmaster   the process: alive, ready, launched, ended
"""

from __future__ import annotations

from substrate.world.server.binaries import Binaries, find_binaries
from substrate.world.server.embedded import EmbeddedServer, ServerStatus

__all__ = ["Binaries", "EmbeddedServer", "ServerStatus", "find_binaries"]
