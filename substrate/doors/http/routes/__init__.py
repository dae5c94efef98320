"""The routes of the HTTP door: a file a noun."""

from __future__ import annotations

from substrate.doors.http.routes.changes import changes
from substrate.doors.http.routes.erasing import erasing
from substrate.doors.http.routes.links import links
from substrate.doors.http.routes.mem0 import mem0
from substrate.doors.http.routes.memories import memories
from substrate.doors.http.routes.operating import operating
from substrate.doors.http.routes.projecting import projecting
from substrate.doors.http.routes.promotions import promotions
from substrate.doors.http.routes.provenance import provenance
from substrate.doors.http.routes.reminders import reminders
from substrate.doors.http.routes.runs import runs
from substrate.doors.http.routes.scopes import scopes
from substrate.doors.http.routes.searching import searching
from substrate.doors.http.routes.sessions import sessions
from substrate.doors.http.routes.stream import stream
from substrate.doors.http.routes.tokens import tokens

#: Below /v1. A path is looked for in this order: what is asked most often stands first.
V1 = (
    memories, searching, changes, links, provenance, promotions, scopes, tokens, sessions, runs, reminders, stream,
    projecting, erasing,
)  # fmt: skip
#: At the root.
ROOT = (mem0, operating)
