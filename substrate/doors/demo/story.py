"""The story: kate learns at a desk, bob asks at a laptop, and ana, whose house it is, decides."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from substrate.doors.demo.stage import Stage
from substrate.errors import NotFound
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.model import Evidence
from substrate.world.world import Agent

RULE = "Deploys to production wait until two people have read the change"
EXACT = "Deploys to production wait until two people have approved the change"
QUESTION = "may I ship this alone?"
PRIVATE = "Ana is planning a surprise party for Friday"
TIP = "The staging database is refreshed every night at two"
CODE = "The spare key code is 7391-KESTREL"


@dataclass(frozen=True, slots=True)
class Scene:
    """What was done, what came back, and what that shows."""

    title: str
    shows: str
    lines: tuple[str, ...]
    #: Whether it came as it should; a demo that does not is worth knowing about.
    holds: bool = True


@dataclass
class Cast:
    """Who is on the stage. kate lives at the desk, bob at the laptop; ana owns the house."""

    stage: Stage
    desk: Runtime
    laptop: Runtime
    ana: Agent
    kate: HostedAgent
    bob: HostedAgent
    bobs_token: str = field(repr=False)


def play(stage: Stage) -> Iterator[Scene]:
    """The scenes, each as it has happened."""
    desk = stage.runtime("desk")
    try:
        laptop = stage.runtime("laptop")
        try:
            cast, scene = _the_house(stage, desk, laptop)
            yield scene
            yield from _scenes(cast)
        finally:
            cast.laptop.close()
    finally:
        desk.close()


def _scenes(cast: Cast) -> Iterator[Scene]:
    rule, scene = _learning(cast)
    yield scene
    yield _recalling(cast)
    yield _privacy(cast)
    yield _reasons(cast, rule)
    yield _promoting(cast)
    yield _losing_an_index(cast)
    yield _erasing(cast)


def _the_house(stage: Stage, desk: Runtime, laptop: Runtime) -> tuple[Cast, Scene]:
    _, ana, _ = desk.world.found_house("home", owner="ana")
    kate = desk.agent(ana.issue_token(ana.create_agent("kate")))
    token = ana.issue_token(ana.create_agent("bob"))
    bob = laptop.agent(token)
    scene = Scene(
        "A house with two runtimes",
        "Agents live in a house and share what it knows. A runtime is one process that hosts some of them; each keeps local"
        " indexes of what its own agents may read, and nothing else.",
        (
            "ana founds the house `home`, and lets kate and bob in, each with a token",
            "kate comes in at the runtime `desk`, bob at the runtime `laptop`",
        ),
    )
    return Cast(stage, desk, laptop, ana, kate, bob, token), scene


def _learning(cast: Cast) -> tuple[UUID, Scene]:
    told = Evidence(method="told", session="monday", quote="nobody pushes that through by himself")
    learned = cast.kate.remember(RULE, scope="house", kind="rule", key="deploys", evidence=told)
    cast.kate.remember(PRIVATE)
    scene = Scene(
        "One learns",
        "A memory is a record and an event, committed together: when `remember` returns, it is on disk, with what it rests"
        " on. Scope comes from who asks: without a word, a memory is private.",
        (
            f"kate, for the house: {RULE!r}",
            f"  → position {learned.position.seq} of the stream; evidence: told in the session `monday`, and the words",
            f"kate, for herself: {PRIVATE!r}",
        ),
    )
    return learned.memory, scene


def _recalling(cast: Cast) -> Scene:
    _up_to_date(cast)
    began = time.perf_counter()
    found = cast.bob.recall(QUESTION, limit=1)
    took = (time.perf_counter() - began) * 1_000
    return Scene(
        "The other recalls",
        "The laptop's runtime heard of it by the stream. Recall goes by words and by meaning, from local files; the question"
        " and the memory have no word in common.",
        (
            f"bob asks: {QUESTION!r}",
            *(f"  → {one.content!r}, from the {one.origin}" for one in found),
            f"  in {took:.1f} ms",
        ),
        holds=[one.content for one in found] == [RULE],
    )


def _privacy(cast: Cast) -> Scene:
    secret = cast.kate.recall("party", limit=1)[0].memory
    found = [one.content for one in cast.bob.recall("surprise party on Friday", limit=10)]
    denied, absent = _refusal(cast.bob, secret), _refusal(cast.bob, uuid4())
    files = [path for path in cast.stage.files_with("surprise party") if path.is_relative_to(cast.laptop.folder)]
    return Scene(
        "Private stays private",
        "What one may not read and what is not there give the same answer, by search and by id. bob's files do not hold the"
        " words at all: an index is built from what its agents may read.",
        (
            f"bob recalls the party: {_yes(PRIVATE in found)}",
            f"bob asks for its id:            {denied}",
            f"bob asks for an id of nothing:  {absent}",
            f"files of the laptop that hold the words: {len(files)}",
        ),
        holds=PRIVATE not in found and denied == absent and not files,
    )


def _reasons(cast: Cast, rule: UUID) -> Scene:
    cast.ana.revise(rule, content=EXACT, reason="reading is not enough")
    why, history = cast.bob.why(rule), cast.bob.history(rule)
    names = {cast.ana.id: "ana", cast.kate.id: "kate"}
    return Scene(
        "How do we know?",
        "Every memory leads back to the events it came from: who, when, on what evidence, and what each change changed.",
        (
            f"ana makes it exact: {EXACT!r}",
            f"bob asks why: it holds because of {len(why.grounds)} events",
            *(
                f"  {one.position.seq}  {one.type} by {names[one.actor]}: {_said(one.quote, one.reason)}"
                for one in history
            ),
        ),
        holds=[one.actor for one in history] == [cast.kate.id, cast.ana.id],
    )


def _promoting(cast: Cast) -> Scene:
    own = cast.kate.remember(TIP)
    proposal = cast.kate.propose_promotion(own.memory, reason="all who test need it")
    before = _knows(cast.bob, TIP)
    taken = cast.ana.approve_promotion(proposal.id)
    cast.bob.catch_up()
    after, why = _knows(cast.bob, TIP), cast.bob.why(taken.memory)
    is_private = [one.private for one in why.derived_from] == [True]
    return Scene(
        "From one to all, with a yes",
        "What is private becomes the house's only if somebody who may decide says so. The house's memory remembers both, and"
        " what it came from stays private.",
        (
            f"kate knows for herself {TIP!r}, and proposes it to the house",
            f"bob recalls it: {_yes(before)}",
            "ana approves",
            f"bob recalls it: {_yes(after)}; why: derived from a private memory of kate, approved by ana",
        ),
        holds=is_private and why.approver == cast.ana.id and (before, after) == (False, True),
    )


def _losing_an_index(cast: Cast) -> Scene:
    _up_to_date(cast)
    before = [one.content for one in cast.bob.recall(QUESTION)]
    folder = cast.laptop.folder
    cast.laptop.close()
    removed = sum(1 for path in folder.rglob("*.db") if path.is_file())
    shutil.rmtree(folder)
    began = time.perf_counter()
    cast.laptop = cast.stage.runtime("laptop")
    cast.bob = cast.laptop.agent(cast.bobs_token)
    _up_to_date(cast)
    took = time.perf_counter() - began
    after = [one.content for one in cast.bob.recall(QUESTION)]
    return Scene(
        "An index is lost",
        "Indexes are made of the stream and can be made again, by themselves or by `substrate rebuild`, while the old one"
        " answers. The truth is in Postgres alone.",
        (
            f"all {removed} index files of the laptop are deleted",
            f"bob comes in again, and they are built anew from the stream, in {took:.1f} s",
            f"bob asks again; the same answers in the same order: {_yes(before == after)}",
        ),
        holds=before == after,
    )


def _erasing(cast: Cast) -> Scene:
    slip = cast.kate.remember(CODE, scope="house", visible=True)
    cast.bob.catch_up()
    known = _knows(cast.bob, CODE)
    receipt = cast.ana.erase(slip.memory)
    for one in (cast.kate, cast.bob):
        one.catch_up(receipt.positions[-1])
    after, files, report = _knows(cast.bob, CODE), cast.stage.files_with("7391-KESTREL"), cast.ana.verify()
    return Scene(
        "Be rid of text, and check the rest",
        "An erasure takes the words out of records, events and every index; that there was something, who erased it and when"
        " stays. The chain of hashes still verifies from the first event to the last.",
        (
            f"kate tells the house a secret by mistake; bob recalls it: {_yes(known)}",
            "ana erases it",
            f"bob recalls it: {_yes(after)}; files of both runtimes that hold the words: {len(files)}",
            f"verify: {report.events} events, {len(report.faults)} faults",
        ),
        holds=report.ok and not files and (known, after) == (True, False),
    )


# ------------------------------------------------------------------ how


def _refusal(who: HostedAgent, memory: UUID) -> str:
    try:
        who.get(memory)
    except NotFound as error:
        return f"{error.code}: {str(error).replace(str(memory), '<id>')}"
    return "it is there"


def _up_to_date(cast: Cast) -> None:
    """What the laptop's threads do within milliseconds, waited for: all that happened, and vectors for it."""
    cast.bob.catch_up()
    cast.laptop.resident(cast.bob.house).indexes.fill_vectors()


def _knows(who: HostedAgent, content: str) -> bool:
    return content in [one.content for one in who.recall(content, limit=10)]


def _said(quote: str | None, reason: str | None) -> str:
    return f"“{quote}”" if quote else f"({reason})" if reason else ""


def _yes(found: bool) -> str:
    return "yes" if found else "no"
