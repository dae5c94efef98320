"""The operating-system account that the embedded server runs under. PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from substrate.errors import ServerUnavailable

if sys.platform != "win32":
    import pwd

#: For root, the first of these that exists. `nobody` may be shared with other services, so it comes last.
PREFERRED = ("substrate", "postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns the data and runs the server. `user` is None where that is simply who we are."""

    name: str
    user: int | None = None
    group: int | None = None

    @property
    def is_another(self) -> bool:
        return self.user is not None

    @property
    def uid(self) -> int:
        return os.geteuid() if self.user is None else self.user

    @property
    def extra_groups(self) -> list[int] | None:
        """None keeps our groups; for another account, none of root's."""
        return [] if self.is_another else None

    def own(self, path: Path | int) -> None:
        """Hand a file of ours (a path or a descriptor) to this account."""
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group)

    def can_enter(self, folder: Path) -> bool:
        """Asked of the kernel, not of mode bits: access lists and mounts have a say too."""
        return not self.is_another or self._succeeds("/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder))

    def can_execute(self, program: Path) -> bool:
        return not self.is_another or self._succeeds(str(program), "--version")

    def _succeeds(self, *command: str) -> bool:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                cwd="/",
                env={},
                user=self.user,
                group=self.group,
                extra_groups=self.extra_groups,
            )
        except OSError:
            return False
        return done.returncode == 0


def account_for(data: Path | None) -> Account:
    """The owner of an existing data folder; for a new one ourselves, or for root an unprivileged account.

    Raises ServerUnavailable where the data is another user's, or where root has no account to change to.
    """
    if sys.platform == "win32":
        return Account(os.environ.get("USERNAME", ""))
    owner = data.stat().st_uid if data is not None and data.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise ServerUnavailable(f"{data} belongs to uid {owner}: run this as that user, or set SUBSTRATE_HOME")
        return Account(_name_of(os.geteuid()))
    # Once made, the data stays with its account, whatever accounts are created later.
    for key in PREFERRED if owner is None else (owner,):
        entry = _entry(key)
        if entry is not None and entry.pw_uid != 0:
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    if owner is not None:
        raise ServerUnavailable(f"{data} belongs to uid {owner}, which cannot run PostgreSQL: give it its owner back")
    raise ServerUnavailable(
        "PostgreSQL does not run as root, and there is no other account to run it under"
        f" (looked for {', '.join(PREFERRED)}): create the user `substrate`, or run this as an ordinary user"
    )


def _entry(key: str | int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(key) if isinstance(key, str) else pwd.getpwuid(key)
    except KeyError:
        return None


def _name_of(uid: int) -> str:
    entry = _entry(uid)
    return entry.pw_name if entry else f"uid {uid}"
