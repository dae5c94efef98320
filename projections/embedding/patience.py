"""How often a server is asked again, and how long one waits before."""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime
from typing import NamedTuple


class Patience(NamedTuple):
    """Attempts, and waits that double: seconds before the first repetition, and the longest."""

    attempts: int = 4
    first_wait: float = 0.5
    longest_wait: float = 8
    #: A server that asks for more than this is left alone: the caller has better things to do than to sleep.
    longest_asked: float = 30

    def wait_before(self, repetition: int, asked: float | None = None) -> float | None:
        """Seconds before that repetition (1 is the first), or None to give up. `asked` is what the server wants."""
        if repetition >= self.attempts or (asked or 0) > self.longest_asked:
            return None
        # Never less than what was asked for, and not all clients at the same moment.
        jitter = 0.5 + random.random() / 2  # noqa: S311
        backed_off = jitter * min(self.longest_wait, self.first_wait * 2 ** (repetition - 1))
        return backed_off if asked is None else asked + jitter * self.first_wait


PATIENT = Patience()
ONCE = Patience(attempts=1)


def seconds_asked_for(retry_after: str | None) -> float | None:
    """What a Retry-After header means, a number of seconds or a date; None where there is none that can be read."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return None
