"""What recall is asked in its benchmark, and how answers are compared. The reference layouts come from outside the project."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from benchmarks.furnished_house import ROOMS, SCOPES, Given, scopes_of

#: Beside the repository, so that nobody changes it together with what is measured against it.
REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "bench" / "recall_reference.py"


def load_reference(path: Path) -> ModuleType | str:
    """The module at this path, or why it cannot be had."""
    if not path.is_file():
        return f"the reference layouts are not there: {path.name}; name them with --reference"
    spec = importlib.util.spec_from_file_location("recall_reference", path)
    if spec is None or spec.loader is None:
        return f"{path.name} is no Python module"
    module = importlib.util.module_from_spec(spec)
    # Before it runs, because its dataclasses and named tuples look themselves up there.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Question:
    """Some words and a vector near those of one memory, asked by an agent who may read that memory."""

    terms: tuple[str, ...]
    vector: NDArray[np.float32]
    #: The number of the agent's own scope.
    agent: int

    @property
    def text(self) -> str:
        return " ".join(self.terms)


def make_questions(given: Sequence[Given], count: int, agents: Sequence[int], seed: int = 11) -> list[Question]:
    """Questions of three to five words, the same ones in every run, in turn by each of the agents."""
    chance, noise = random.Random(seed), np.random.default_rng(seed)
    by_scope: dict[int, list[int]] = {}
    for number, one in enumerate(given):
        by_scope.setdefault(one.scope, []).append(number)
    questions = []
    for turn in range(count):
        agent = agents[turn % len(agents)]
        meant = given[chance.choice([n for scope in scopes_of(agent) for n in by_scope.get(scope, [])])]
        words = sorted(set(meant.text.split()))
        vector = meant.vector + noise.normal(0, 0.02, len(meant.vector)).astype("f4")
        terms = tuple(chance.sample(words, min(len(words), chance.randint(3, 5))))
        questions.append(Question(terms, (vector / np.linalg.norm(vector)).astype("f4"), agent))
    return questions


def askers(count: int) -> list[int]:
    """The numbers of so many agents, in as many rooms as there are."""
    first = 1 + ROOMS
    return list(range(first, min(first + count, SCOPES)))


def nearest(given: Sequence[Given], scope: int, vector: NDArray[np.float32], most: int) -> list[int]:
    """The truth: the numbers of the nearest memories of a scope, found by looking at each of them.

    What points away from the question is near to nobody, and not every peer can be asked for it.
    """
    numbers = [number for number, one in enumerate(given) if one.scope == scope]
    if not numbers:
        return []
    likeness = np.stack([given[number].vector for number in numbers]) @ vector
    return [numbers[place] for place in np.argsort(-likeness)[:most] if likeness[place] > 0]


def best_with_ties(scored: Sequence[tuple[float, int]], most: int) -> list[int]:
    """The numbers of so many of the highest scores, and of those that equal the last of them but for rounding."""
    ordered = sorted(scored, reverse=True)
    if len(ordered) <= most:
        return [number for _, number in ordered]
    last = ordered[most - 1][0]
    return [number for score, number in ordered if score >= last - 1e-9 * abs(last)]


def share(found: Collection[int], wanted: Collection[int]) -> float:
    """How much of what was wanted is among what was found."""
    return len(set(found) & set(wanted)) / len(set(wanted)) if wanted else 1.0
