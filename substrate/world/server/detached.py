"""Starting a process that stays when we are gone."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from substrate.world.server.account import Account


def launch(
    command: Sequence[str],
    *,
    log: int,
    folder: Path,
    environment: Mapping[str, str],
    inherited: Sequence[int] = (),
    account: Account | None = None,
) -> int:
    """Run a command as nobody's child, in a session of its own, and return its process id; not on Windows.

    What it says goes to the descriptor `log`; of our other descriptors it gets those that are `inherited`.
    """
    # The shell puts it into the background and ends. So we leave no zombie while we live, the terminal's Ctrl-C and
    # hangup do not reach it, and no pipe of ours stays open in it. The words are arguments: nothing is quoted.
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" </dev/null >&2 & echo $!', "sh", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        check=True,
        cwd=folder,
        env=environment,
        user=None if account is None else account.user,
        group=None if account is None else account.group,
        extra_groups=None if account is None else account.extra_groups,
        umask=0o077,
        start_new_session=True,
        pass_fds=tuple(inherited),
    )
    return int(done.stdout)
