"""Delivering what is due, for the agents that this process hosts: claim a few, deliver each on a thread, say what became of it.

While a deliverer works its claim is renewed. A process that is killed leaves claims whose lease runs out; whoever comes
then delivers these once more, under the same delivery id. Nothing is polled: it sleeps until the next one is due.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from substrate.errors import SubstrateError
from substrate.runtime.reminding.deliverers import INBOX, Deliverers
from substrate.world.claims import Claim, Claims
from substrate.world.credential import Credential

if TYPE_CHECKING:
    from substrate.runtime.runtime import Runtime

log = logging.getLogger(__name__)

#: How many are delivered at once.
AT_ONCE = 8
#: Seconds between two looks at the latest; a hint, or the next due time, makes for one sooner.
LONGEST, PATIENCE = 10.0, 5.0
#: A delivery that failed is tried again after so long, three times as long each time, so often in all.
FIRST_PAUSE, LONGEST_PAUSE, MOST_ATTEMPTS = timedelta(seconds=10), timedelta(hours=1), 8
#: A claim is renewed for so many leases: whoever takes longer than that hangs, and another may try.
MOST_LEASES = 10


class Tally(NamedTuple):
    """What became of the reminders that were due."""

    delivered: int = 0
    failed: int = 0
    #: Delivered, or not, after the claim had gone to another, who delivers it too.
    lost: int = 0


class Delivering:
    """Delivers for the agents of one runtime, on a thread of its own (`start`) or for who waits for it (`due`)."""

    def __init__(self, runtime: Runtime, credentials: Callable[[], list[Credential]]) -> None:
        self.deliverers = Deliverers(runtime)
        self._claims = Claims(runtime.world.database, runtime.name, runtime.settings.reminder_lease)
        self._credentials = credentials
        self._work = self._begun()
        self._thread = threading.Thread(target=self._follow, name="reminders", daemon=True)

    def _begun(self) -> _Work:
        return _Work(self._claims, self.deliverers, self._credentials)

    def due(self) -> Tally:
        """Deliver what is due now, and return when all of it was tried once."""
        return self._begun().run(once=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There may be something new."""
        self._work.wake()

    def stop(self) -> None:
        """Take no more, and return when what is under way is done, or its lease is over."""
        self._work.stop()
        if self._thread.is_alive():
            self._thread.join()
        self.deliverers.close()

    def _follow(self) -> None:
        while not self._work.stopped.is_set():
            try:
                self._work.run(once=False)
            except SubstrateError as error:
                log.warning("reminders wait: %s", error)
                self._work.stopped.wait(PATIENCE)


class _Work:
    """What is under way, and who takes on more of it."""

    def __init__(
        self, claims: Claims, deliverers: Deliverers, credentials: Callable[[], list[Credential]]
    ) -> None:  # fmt: skip
        self._claims = claims
        self._deliverers = deliverers
        self._credentials = credentials
        self._lease = claims.lease.total_seconds()
        self.stopped = threading.Event()
        self._changed = threading.Condition()
        #: Whether anything has changed since it was last looked.
        self._news = False
        #: By its token, what is under way, and until when it is renewed by the monotonic clock.
        self._held: dict[UUID, tuple[Claim, float]] = {}
        self._renewed_at = time.monotonic()
        self._tally = Tally()

    def wake(self) -> None:
        with self._changed:
            self._news = True
            self._changed.notify_all()

    def stop(self) -> None:
        self.stopped.set()
        self.wake()

    def run(self, *, once: bool) -> Tally:
        """Until it is stopped; or, for once, until nothing is due and nothing under way."""
        while not self.stopped.is_set():
            self._news = False
            room = AT_ONCE - len(self._held)
            taken = self._take(room)
            if not taken and not self._held and once:
                return self._tally
            if not taken or len(taken) == room:
                self._wait(room - len(taken))
            self._renew()
        with self._changed:
            self._changed.wait_for(lambda: not self._held, self._lease)
        return self._tally

    def _wait(self, room: int) -> None:
        """Until something is done, or new, or due."""
        seconds = self._lease / 3 if self._held else LONGEST
        if room:
            due = self._claims.next_in(self._credentials(), self._deliverers.names())
            seconds = seconds if due is None else min(seconds, max(due, 0.0))
        with self._changed:
            self._changed.wait_for(lambda: self._news, seconds)

    def _take(self, room: int) -> list[Claim]:
        who = self._credentials()
        taken = self._claims.take(who, self._deliverers.names(), room) if room > 0 and who else []
        until = time.monotonic() + MOST_LEASES * self._lease
        with self._changed:
            self._held.update({claim.token: (claim, until) for claim in taken})
        for claim in taken:
            # A daemon: a deliverer that hangs does not keep the process from ending.
            threading.Thread(target=self._deliver, args=(claim,), name="deliverer", daemon=True).start()
        return taken

    def _renew(self) -> None:
        now = time.monotonic()
        if now - self._renewed_at < self._lease / 3:
            return
        self._renewed_at = now
        with self._changed:
            hanging = [claim for claim, until in self._held.values() if until < now]
            for claim in hanging:
                del self._held[claim.token]
            held = [claim for claim, _ in self._held.values()]
        for claim in hanging:
            log.warning("reminder %s: its deliverer does not return; another may try", claim.reminder.id)
        if held:
            self._claims.renew(held)

    def _deliver(self, claim: Claim) -> None:
        said = "lost"
        try:
            said = self._tried(claim)
        except SubstrateError as error:
            # It could not be said what became of it: it comes again when the lease is over.
            log.warning("reminder %s: %s", claim.reminder.id, error)
        finally:
            with self._changed:
                self._held.pop(claim.token, None)
                self._tally = self._tally._replace(**{said: getattr(self._tally, said) + 1})
            self.wake()

    def _tried(self, claim: Claim) -> str:
        try:
            if claim.reminder.plugin == INBOX:
                self._claims.put_in_inbox(claim)
            else:
                self._deliverers.get(claim.reminder.plugin).deliver(claim.reminder)
        except Exception as error:  # noqa: BLE001 - it is somebody else's code, and whatever it raises is told
            code = error.code if isinstance(error, SubstrateError) else type(error).__name__
            # The text of the error may hold that of the reminder: only its name is kept.
            log.warning("reminder %s was not delivered by %s: %s", claim.reminder.id, claim.reminder.plugin, code)
            again = pause_after(claim.reminder.attempts)
            return "failed" if self._claims.fail(claim, code, again, MOST_ATTEMPTS) else "lost"
        return "delivered" if self._claims.finish(claim) else "lost"


def pause_after(attempts: int) -> timedelta:
    """How long to wait after so many attempts."""
    times: int = 3 ** min(max(attempts - 1, 0), 20)
    return min(LONGEST_PAUSE, FIRST_PAUSE * times)
