"""A random life of a house and of the folders that index it, with everything that can come between.

`Life.do` does one thing: somebody learns or changes something, rights change, or a folder's indexes take a step, are
closed and opened again, killed at some point, overtaken by a second process, or given a projection of another version.
What is refused is refused: whether it should be is asked elsewhere. `Life.differences` is what must be nothing at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

from projections.copying import Copier
from projections.files import IndexFile
from projections.folder import Folder
from projections.house import HouseIndexes
from substrate.errors import SubstrateError
from substrate.world.credential import Credential, Token
from substrate.world.database import Database
from substrate.world.model import Evidence, Tier
from substrate.world.replica import Replica
from substrate.world.world import Agent, World
from tests.hosts import Contents, Letters, contents, current, rebuilt
from tests.walks import pick

WORDS = ("tea", "kettle", "https://example.org/a_b", "walked", "猫は魚が好き", "Zürich", "indent")
TIERS: Sequence[Tier] = ("hot", "warm", "cold")
#: Pages are short, so that a scope of a few memories already takes several.
PAGE = 4


class Killed(BaseException):
    """The process ends here."""


class Deed(NamedTuple):
    """One thing that happens; the numbers choose among what there is by then."""

    name: str
    one: int = 0
    two: int = 0
    three: int = 0


@dataclass
class Place:
    """A folder of indexes, those for whom it is, and the instances that share it as two processes would."""

    path: Path
    who: list[Credential]
    versions: dict[str, int] = field(default_factory=dict)
    open: dict[int, HouseIndexes] = field(default_factory=dict)

    def instance(self, database: Database, house: UUID, number: int) -> HouseIndexes:
        if number not in self.open:
            made = HouseIndexes(database, house, Folder(self.path), Letters())
            for projection in made.projections:
                projection.version = self.versions.get(projection.name, 1)  # type: ignore[misc]
            self.open[number] = made
        return self.open[number]

    def close(self, number: int | None = None) -> None:
        for one in [number] if number is not None else list(self.open):
            if one in self.open:
                self.open.pop(one).close()


class Life:
    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.owner = world.found_house("home", "ana").owner
        self.house = self.owner.house
        self.agents: list[Agent] = [self.owner]
        self.scopes: list[UUID] = [self.house, self.owner.id]
        self.memories: list[UUID] = []
        for name in ("kate", "leo"):
            self._create_agent(name)
        self._create_group("kitchen")
        self.places = [self._place("a", self.agents[1]), self._place("b", self.owner, self.agents[2])]

    def _place(self, name: str, *agents: Agent) -> Place:
        place = Place(self.folder / name, [agent._credential for agent in agents])
        for who in place.who:
            Folder(place.path).host(who)
        return place

    def do(self, deed: Deed) -> None:
        with suppress(SubstrateError):
            getattr(self, f"_{deed.name}")(deed)

    # -------------------------------------------------------------- choosing

    def _who(self, number: int) -> Agent:
        return self.owner if number % 3 == 0 else pick(self.agents, number)

    def _memory(self, number: int) -> UUID:
        # One of the last few more often than not, or most deeds would meet memories that are long gone.
        return pick(self.memories[-6:] if number % 3 else self.memories, number // 3) if self.memories else self.house

    def _teacher(self, memory: UUID) -> Agent:
        """Who may do something to it: its teacher mostly may."""
        for agent in self.agents:
            with suppress(SubstrateError):
                if agent.get(memory).taught_by == agent.id:
                    return agent
        return self.owner

    def _text(self, deed: Deed) -> str:
        return f"{pick(WORDS, deed.two)} and {pick(WORDS, deed.three)} number {len(self.memories)}"

    def _evidence(self, deed: Deed) -> Evidence:
        return Evidence(session=pick((None, "monday", "friday"), deed.two), quote=pick((None, "said so"), deed.three))

    # -------------------------------------------------------------- memories

    def _remember(self, deed: Deed) -> None:
        receipt = self._who(deed.one).remember(
            self._text(deed), scope=pick(self.scopes, deed.two), key=pick((None, None, "cat", "dog"), deed.three),
            title=pick((None, "A title"), deed.two), tags=("red",)[: deed.three % 2], tier=pick(("warm", "hot"), deed.one),
            evidence=self._evidence(deed),
        )  # fmt: skip
        self.memories.append(receipt.memory)

    def _on_memory(self, deed: Deed, do: Callable[[Agent, UUID], Any]) -> None:
        memory = self._memory(deed.one)
        do(self._teacher(memory), memory)

    def _revise(self, deed: Deed) -> None:
        self._on_memory(deed, lambda a, m: a.revise(m, content=self._text(deed), evidence=self._evidence(deed)))

    def _forget(self, deed: Deed) -> None:
        self._on_memory(deed, lambda a, m: a.forget(m))

    def _restore(self, deed: Deed) -> None:
        self._on_memory(deed, lambda a, m: a.restore(m))

    def _supersede(self, deed: Deed) -> None:
        self._on_memory(deed, lambda a, m: self.memories.append(a.supersede(m, self._text(deed)).memory))

    def _reinforce(self, deed: Deed) -> None:
        self._on_memory(deed, lambda a, m: a.reinforce(m, confidence=0.7, evidence=self._evidence(deed)))

    def _set_tier(self, deed: Deed) -> None:
        self._on_memory(deed, lambda a, m: a.set_tier(m, pick(TIERS, deed.two)))

    def _link(self, deed: Deed) -> None:
        self._on_memory(deed, lambda a, m: a.link(m, "supports", self._memory(deed.two), weight=1 + deed.three % 2))

    def _unlink(self, deed: Deed) -> None:
        self._on_memory(deed, lambda a, m: a.unlink(m, "supports", self._memory(deed.two)))

    def _erase(self, deed: Deed) -> None:
        self._on_memory(deed, lambda a, m: a.erase(m))

    def _promote(self, deed: Deed) -> None:
        def promote(agent: Agent, memory: UUID) -> None:
            agent.propose_promotion(memory)
            for proposal in self.owner.proposals():
                self.memories.append(self.owner.approve_promotion(proposal.id).memory)

        self._on_memory(deed, promote)

    # -------------------------------------------------------------- scopes and rights

    def _create_agent(self, name: str) -> None:
        made = self.owner.create_agent(name)
        self.scopes.append(made.id)
        self.agents.append(self.world.agent(self.owner.issue_token(made)))

    def _create_group(self, name: str) -> None:
        self.scopes.append(self.owner.create_group(name).id)

    def _grant(self, deed: Deed) -> None:
        scope = pick(self.scopes[1:], deed.one)
        giver = next((agent for agent in self.agents if agent.id == scope), self.owner)
        giver.grant(scope, pick(self.agents, deed.two).id, pick(("r", "rw", "-"), deed.three))

    def _configure(self, deed: Deed) -> None:
        self.owner.configure(pick(self.scopes[:1] + self.scopes[4:], deed.one), members=pick(("rw", "-"), deed.two))

    def _move(self, deed: Deed) -> None:
        self.owner.move(pick(self.scopes[2:], deed.one), pick(self.scopes, deed.two))

    def _remove(self, deed: Deed) -> None:
        if deed.three % 4 == 0:
            self.owner.remove(pick(self.scopes[2:], deed.one))

    def _found(self, deed: Deed) -> None:
        if len(self.scopes) < 8:
            (self._create_agent if deed.one % 2 else self._create_group)(f"new {len(self.scopes)}")

    # -------------------------------------------------------------- hosting

    def _host(self, deed: Deed) -> None:
        """Take in another agent, or the same one with a token that can be revoked."""
        place, agent = pick(self.places, deed.one), pick(self.agents, deed.two)
        token = Token.parse(agent.issue_token(rights=pick(("r", "rwx"), deed.three))).id
        place.who.append(Credential(agent.id, self.house, token))
        Folder(place.path).host(place.who[-1])

    def _unhost(self, deed: Deed) -> None:
        place = pick(self.places, deed.one)
        if len(place.who) > 1:
            Folder(place.path).unhost(place.who.pop(deed.two % len(place.who)))

    def _revoke_token(self, deed: Deed) -> None:
        who = pick(pick(self.places, deed.one).who[1:] or [self.owner._credential], deed.two)
        agent = next(agent for agent in self.agents if agent.id == who.principal)
        if who.token is not None and who is not self.owner._credential and who != agent._credential:
            agent.revoke_token(who.token)

    # -------------------------------------------------------------- indexes

    def _indexes(self, deed: Deed) -> tuple[Place, int, HouseIndexes]:
        place, number = pick(self.places, deed.one), deed.one // 2 % 2
        return place, number, place.instance(self.world.database, self.house, number)

    def _follow(self, deed: Deed) -> None:
        made = self._indexes(deed)[2]
        made.step()
        if made.faults:
            made.heal()

    def _fill(self, deed: Deed) -> None:
        self._indexes(deed)[2].fill_vectors()

    def _rebuild(self, deed: Deed) -> None:
        made = self._indexes(deed)[2]
        made.rebuild([pick(made.projections, deed.two).name] if deed.three % 2 else [])

    def _reopen(self, deed: Deed) -> None:
        place, number, _ = self._indexes(deed)
        place.close(number)

    def _upgrade(self, deed: Deed) -> None:
        """A release with another layout: all processes of the folder are stopped, and started anew."""
        place, _, made = self._indexes(deed)
        name = pick(made.projections, deed.two).name
        place.close()
        place.versions[name] = place.versions.get(name, 1) + 1

    def _again(self, deed: Deed) -> None:
        """A page is applied that was applied before, as whoever lost a race would."""
        made = self._indexes(deed)[2]
        copier = made._copier(made.folder.manifest())
        if copier is not None:
            scopes = set(copier.documents.replicated())
            events = made.replica().events(sorted(scopes), 0, 10**9, 50)
            if events:
                last = pick(events, deed.two)
                copier.apply([one for one in events if one.seq <= last.seq], last.seq, last.hash, scopes)

    def live(self, deeds: Sequence[Deed], cut: Deed | None, between: Sequence[Deed]) -> None:
        """Do these, with something coming in between at the `cut`-th chance of the last of them."""
        *first, last = deeds
        for deed in first:
            self.do(deed)
        if cut is None:
            self.do(last)
            return
        place, number, _ = self._indexes(last)
        try:
            with interrupted(cut.one % 24, self._come_between(cut, between)):
                self.do(last)
        except Killed:
            place.close(number)

    def _come_between(self, cut: Deed, between: Sequence[Deed]) -> Callable[[], None]:
        def come() -> None:
            for deed in between:
                self.do(deed)
            if cut.two % 3 == 0:
                raise Killed

        return come

    # -------------------------------------------------------------- the end

    def differences(self) -> dict[str, dict[str, Any]]:
        """Where a folder, caught up, is not what is built from nothing for the same agents."""
        found = {}
        for place in self.places:
            place.close()
            made = place.instance(self.world.database, self.house, 0)
            if not any(reached.readable for reached in made.replica().reached().values()):
                continue  # nobody here reads anything: there is nothing to compare with
            here = contents(current(made))
            clean = rebuilt(made, place.path.with_name(f"{place.path.name}-clean"))
            found[place.path.name] = unlike(here, clean)
        return {name: differing for name, differing in found.items() if differing}

    def close(self) -> None:
        for place in self.places:
            place.close()


def unlike(here: Contents, clean: Contents) -> dict[str, Any]:
    """What two sets of indexes do not have in common, by projection."""
    return {
        name: {"too much": dict(here[name] - clean[name]), "missing": dict(clean[name] - here[name])}
        for name in clean
        if here[name] != clean[name]
    }


@contextmanager
def interrupted(after: int, come: Callable[[], None]) -> Iterator[None]:
    """Let something come once, at the n-th chance: before a file's transaction, before it commits, after a page was read."""
    chances = iter(range(after + 1))
    writing, rows = IndexFile.writing, Replica._rows

    def chance() -> None:
        # The last number that there is: nothing comes a second time, nor inside of what comes.
        if next(chances, None) == after:
            come()

    @contextmanager
    def writing_interrupted(file: IndexFile) -> Iterator[Any]:
        chance()
        with writing(file) as checkpoint:
            yield checkpoint
            if next(chances, None) == after:
                raise Killed  # others could not come in: the file is locked

    def rows_interrupted(replica: Replica, *arguments: Any) -> list[Any]:
        found = rows(replica, *arguments)
        chance()
        return found

    with (
        patch.object(IndexFile, "writing", writing_interrupted),
        patch.object(Replica, "_rows", rows_interrupted),
        patch.object(Copier.follow, "__kwdefaults__", {"page": PAGE}),
        patch.object(Copier.backfill, "__kwdefaults__", {"page": PAGE, "on_page": None}),
    ):
        yield
