"""A process that delivers what is due until it is killed. It writes each delivery down, and may kill itself right after one.

Arguments: URL of the application, home, house, agent, journal, seconds of a lease, after how many deliveries it dies (0: never).
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world.credential import Credential
from substrate.world.reminders import Reminder


def main() -> None:
    app_url, home, house, agent, journal, lease, last = sys.argv[1:]
    settings = Settings(home=Path(home), embedder="none", reminder_lease=timedelta(seconds=float(lease)))
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    numbers = itertools.count(1)

    def deliver(reminder: Reminder) -> None:
        assert reminder.claimed_at is not None
        assert reminder.lease_until is not None
        said = [reminder.id, reminder.delivery_id, reminder.claimed_at.isoformat(), reminder.lease_until.isoformat()]
        # One write, which appends a whole line whoever else writes; a kill of this process does not take it back.
        os.write(file, (" ".join(map(str, said)) + "\n").encode())
        if next(numbers) == int(last):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(random.random() / 200)

    with Runtime.open(f"r{os.getpid()}", app_url=app_url, settings=settings, follow=False) as runtime:
        runtime.deliverers.add("journal", deliver)
        runtime._agents[Credential(UUID(agent), UUID(house))] = None
        print("here", flush=True)
        while True:
            runtime.deliver_due()
            time.sleep(0.02)


if __name__ == "__main__":
    main()
