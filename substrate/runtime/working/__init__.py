"""Working memory: what one runtime keeps at hand in a SQLite file of its own, and can do without.

| offsets  | where named readers of the stream were               | lost: they read again from the beginning |
| seen     | keys of what was handled already, until they expire  | lost: something may be handled twice |
| recent   | the last turns of sessions, a cache of `interactions` | lost: read again from Postgres |
| tokens   | credentials for other services, encrypted            | lost: asked for again |
| kept     | small values with a time to live                     | lost: made again |
| signals  | what was recalled, on its way to Postgres            | lost: one interval of them |

Nothing in it is the only copy of anything that matters across restarts: a file that is gone, damaged or of another
version is replaced by an empty one, and the log says so.
"""

from substrate.runtime.working.memory import WorkingMemory
from substrate.runtime.working.shelf import Offset, Shelf

__all__ = ["Offset", "Shelf", "WorkingMemory"]
