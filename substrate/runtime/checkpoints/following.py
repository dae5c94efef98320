"""Bringing a repository to what the stream says: commits that are missing, damage, erasures, changes by hand."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from dulwich.objects import Commit, ShaFile

from substrate.errors import NotFound, SubstrateError, Unavailable
from substrate.runtime.checkpoints.registry import Registered, Registry, folder_for
from substrate.runtime.checkpoints.repository import DAMAGE, MAIN, Repository, State
from substrate.runtime.checkpoints.shown import Moved, commit_of, message_of
from substrate.runtime.checkpoints.worktree import WorkTree
from substrate.world.checkpoints import Checkpoint

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent

log = logging.getLogger(__name__)


@dataclass
class Opened:
    """A repository, brought to what the stream says."""

    repository: Repository
    state: State
    tree: WorkTree
    #: Where an edit of somebody was put aside on the way.
    edits: str | None = None


def _files_as_shown(repository: Repository, tree: WorkTree, state: State) -> str | None:
    """The files as the last commit has them; where somebody's edits were put aside, the branch that has them."""
    if repository.is_owed:
        tree.write_all(state.shown)
        repository.paid()
        return None
    edits = None if state.head is None else tree.keep_edits(state.shown, state.head)
    if edits is not None:
        tree.write_all(state.shown)
    return edits


class Following:
    """Opens repositories of one workspace, each brought to what the stream says first."""

    def __init__(self, workspace: Path) -> None:
        self.registry = Registry(workspace)
        #: What was heard by this process since: it spares asking the same again from further back each time.
        self.heard: dict[UUID, int] = {}

    @contextmanager
    def opened(self, agent: HostedAgent) -> Iterator[Opened]:
        with _told(agent), self.registry.locked(agent.id):
            # Of two agents with one name, the second sees that the first is there.
            with self.registry.locked("places"):
                repository, heard = self._place(agent)
            yield self._followed(agent, repository, heard)

    def _place(self, agent: HostedAgent) -> tuple[Repository, int | None]:
        """Where the repository is, moved where it belongs by today's names; and what it has heard of erasures."""
        known = self.registry.get(agent.id)
        house, own = (agent.house, _name(agent, "house")), (agent.id, _name(agent, "own"))
        folder = folder_for(house, own)
        if self.registry.taken(folder, agent.id) or _is_strange(self.registry.workspace / folder, agent.id):
            folder = folder_for(house, own, short=False)
        place = self.registry.workspace / folder
        if known is not None and known.folder != folder:
            place.parent.mkdir(parents=True, exist_ok=True)
            if (self.registry.workspace / known.folder).is_dir() and not place.exists():
                (self.registry.workspace / known.folder).rename(place)
        heard = None if known is None else known.heard
        # Written down before there is anything: whoever looks for text that must go looks here.
        self.registry.put(Registered(str(agent.house), str(agent.id), folder, heard))
        repository = Repository(place)
        repository.make_folder()
        return repository, heard

    def _followed(self, agent: HostedAgent, repository: Repository, heard: int | None) -> Opened:
        # Before any text is read: what is erased after this is heard of the next time.
        head = agent._own_head()  # noqa: SLF001
        repository.tidy()
        state = repository.state()
        erased = heard is None or agent._erased_after(heard)  # noqa: SLF001
        if state is None or state.agent != agent.id or erased:
            return self.made_anew(agent, repository, erased=erased, heard=head)
        tree = WorkTree(repository)
        try:
            edits = _files_as_shown(repository, tree, state)
        except DAMAGE:
            log.warning("agent %s: the repository is damaged; it is made anew from the stream", agent.id)
            return self.made_anew(agent, repository, erased=False, heard=head)
        if later := agent._checkpoints_after(state.position):  # noqa: SLF001
            repository.owe()
            contents = self._extend(agent, repository, state, later)
            repository.advance(state)
            tree.write_all(state.shown, contents)
            repository.paid()
        self._hear(agent.id, head)
        return Opened(repository, state, tree, edits)

    def made_anew(
        self, agent: HostedAgent, repository: Repository, *, erased: bool, heard: int | None = None
    ) -> Opened:
        """The whole repository from the stream, beside the old one, and in its place.

        Branches of people come along, unless something was erased: nobody can say what they hold.
        """
        head = agent._own_head() if heard is None else heard  # noqa: SLF001
        state, made = State(agent.house, agent.id), repository.beside(agent.id)
        contents = self._extend(agent, made, state, agent._checkpoints_after(0))  # noqa: SLF001
        made.advance(state)
        tree = WorkTree(repository)
        tree.known()  # read before it goes with the old one: most files are what they should be
        looked_after = not erased and repository.main() is not None and not repository.is_owed
        if not erased and (lost := repository.carry(_peoples(repository, state), made)):
            log.warning("agent %s: branches that could not be read were dropped: %s", agent.id, ", ".join(lost))
        made.owe()
        repository.swap_in(made)
        edits = tree.keep_edits(state.shown, state.head) if looked_after and state.head is not None else None
        tree.write_all(state.shown, contents)
        repository.paid()
        self._hear(agent.id, head)
        return Opened(repository, state, tree, edits)

    def _extend(
        self, agent: HostedAgent, repository: Repository, state: State, taken: list[Checkpoint]
    ) -> dict[str, bytes | None]:
        """Put the commits of these checkpoints on top; what they show is folded from the stream.

        Returns the files that changed on the way, as they are in the end.
        """
        points: list[int] = []
        for one in taken:
            points.append(max(one.through, points[-1] if points else state.shown.through))
        objects: list[ShaFile] = []
        files: dict[str, bytes | None] = {}
        for one, point, changed in zip(
            taken, points, agent._changes_at(state.shown.through, points), strict=True  # noqa: SLF001
        ):  # fmt: skip
            moved = state.shown.move(changed, point)
            message = message_of(one.id, one.through, one.memories, one.label, one.occasion)
            commit = checkpoint_commit(agent, state, moved, one.taken_at, message)
            objects += [*moved.objects, commit]
            files |= moved.files
            note(state, one, commit.id.decode())
        repository.add(objects)
        return files

    def _hear(self, agent: UUID, head: int) -> None:
        known = self.registry.get(agent)
        if known is not None and known.heard != head:
            self.registry.put(replace(known, heard=head))
        self.heard[agent] = head


@contextmanager
def _told(agent: HostedAgent) -> Iterator[None]:
    """What the system refuses, in our own words: a full disk, a folder that is not ours."""
    try:
        yield
    except SubstrateError:
        raise  # some of them are errors of the system, too
    except OSError as error:
        raise Unavailable(
            f"the repository of agent {agent.id} cannot be used: {error.strerror or type(error).__name__}."
            " What is on the stream is safe; mend the workspace, and the next checkpoint brings the repository up"
        ) from None


def checkpoint_commit(agent: HostedAgent, state: State, moved: Moved, at: datetime, message: str) -> Commit:
    """The commit that follows on the state's."""
    return commit_of(moved.tree, state.head, f"{agent.id} <{agent.id}@{agent.house}>", at, message)


def note(state: State, taken: Checkpoint, commit: str) -> None:
    """The state has come to this checkpoint."""
    state.head, state.position = commit, taken.position.seq
    state.commits[str(taken.id)] = commit


def _peoples(repository: Repository, state: State) -> list[tuple[str, str]]:
    """The branches and tags that are not ours; and what somebody committed to ours, under a name of its own."""
    ours = set(state.commits.values())
    found = [(name, commit) for name, commit in repository.refs().items() if name != MAIN]
    main = repository.main()
    if main is not None and main not in ours:
        found.append((f"refs/heads/edits/main-{main[:7]}", main))
    return found


def _is_strange(place: Path, agent: UUID) -> bool:
    """There is a repository that is not this agent's: somebody's own, and not to be touched."""
    return (place / ".git").exists() and Repository(place).owner() != str(agent)


def _name(agent: HostedAgent, which: Literal["house", "own"]) -> str | None:
    try:
        return agent.scope(which).name
    except NotFound:
        return None
