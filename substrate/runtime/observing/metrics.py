"""Metrics of one runtime, in the form that Prometheus reads. A registry of our own: several runtimes live in a process.

Labels are few and known: the house by its id, projections, modes, and codes of errors by the words of `substrate.errors`.
No id of an agent, and no text, is ever a label. `docs/observability.md` lists them all.

Others add what they have with `Meter.gauge`, by a function that is asked when somebody looks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from substrate.errors import SubstrateError

if TYPE_CHECKING:
    from substrate.runtime.resident import Resident
    from substrate.runtime.runtime import Runtime

Operation = Literal["remember", "recall", "catch_up"]
#: From a recall out of the cache to a rebuild on the way.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
#: A gauge's values by its label, or one value.
Read = Callable[[], float | Mapping[str, float]]


class Meter:
    """Counts and times what the agents of a runtime do, and asks its parts how they are when somebody looks."""

    def __init__(self, runtime: Runtime) -> None:
        # Without the process's own metrics: whoever serves these adds them once.
        self.registry = CollectorRegistry(auto_describe=False)
        self._appends = Counter("substrate_appends", "Events written to the stream", registry=self.registry)
        self._append_failures = Counter(
            "substrate_append_failures", "Writes that failed", ["code"], registry=self.registry
        )
        self._recalls = Counter("substrate_recalls", "Recalls answered", ["mode"], registry=self.registry)
        self._failures = Counter(
            "substrate_operation_failures", "Operations that failed", ["operation", "code"], registry=self.registry
        )
        seconds = Histogram(
            "substrate_operation_seconds", "How long operations took", ["operation"], buckets=BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        # Looked up once: finding a label's child takes longer than counting.
        self._seconds = {name: seconds.labels(name) for name in ("remember", "recall", "catch_up")}
        self._modes = {mode: self._recalls.labels(mode) for mode in ("keyword", "vector", "hybrid")}
        self._gauges: dict[str, tuple[str, str | None, Read]] = {}
        self.registry.register(_Parts(runtime, self._gauges))

    def took(self, operation: Operation, seconds: float) -> None:
        self._seconds[operation].observe(seconds)

    def recalled(self, mode: str) -> None:
        self._modes[mode].inc()

    def appended(self, events: int = 1) -> None:
        self._appends.inc(events)

    def not_appended(self, error: BaseException) -> None:
        self._append_failures.labels(code_of(error)).inc()

    def failed(self, operation: Operation, error: BaseException) -> None:
        self._failures.labels(operation, code_of(error)).inc()

    def gauge(self, name: str, about: str, read: Read, *, label: str | None = None) -> None:
        """Another number of this runtime: `read` is asked when somebody looks, and gives a number, or one for each label.

        Names begin with `substrate_`. Give as labels neither ids of agents nor text. A second one of a name takes its place.
        """
        self._gauges[name] = (about, label, read)

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry).decode()


def code_of(error: BaseException) -> str:
    """The word for machines of an error of ours; of another, that it is one."""
    return error.code if isinstance(error, SubstrateError) else "other"


class _Parts(Collector):
    """Asks the parts of a runtime, each time somebody looks."""

    def __init__(self, runtime: Runtime, gauges: Mapping[str, tuple[str, str | None, Read]]) -> None:
        self._runtime = runtime
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        houses = self._runtime.residents()
        yield from _of_projections(houses)
        yield from _of_houses(houses)
        yield _one("substrate_append_queue", "Writes that wait for group commit", self._runtime.world.waiting)
        yield _one("substrate_run_events_waiting", "Changes of runs held back", self._runtime.run_log.waiting)
        yield _one("substrate_run_events_lost", "Steps dropped because too many waited", self._runtime.run_log.lost)
        for name, (about, label, read) in self._gauges.items():
            yield _read(name, about, label, read())


def _of_projections(houses: list[Resident]) -> Iterator[Metric]:
    labels = ["house", "projection"]
    lag = GaugeMetricFamily("substrate_projection_lag", "Positions behind the head of the stream", labels=labels)
    pending = GaugeMetricFamily("substrate_vectors_pending", "Memories whose vector is still to come", labels=labels)
    dead = GaugeMetricFamily("substrate_dead_letters", "Events that could not be applied", labels=labels)
    for resident in houses:
        for one in resident.indexes.status():
            where = [str(resident.indexes.house), one.name]
            lag.add_metric(where, one.lag)
            pending.add_metric(where, one.pending)
            dead.add_metric(where, one.dead_letters)
    yield from (lag, pending, dead)


def _of_houses(houses: list[Resident]) -> Iterator[Metric]:
    head = GaugeMetricFamily("substrate_stream_head", "Position of the head, as last heard", labels=["house"])
    age = GaugeMetricFamily("substrate_stream_heard_age_seconds", "Since the stream was last heard", labels=["house"])
    idle = GaugeMetricFamily("substrate_stream_head_age_seconds", "Since the last event was recorded", labels=["house"])
    signals = GaugeMetricFamily("substrate_signals_waiting", "Recall signals held back", labels=["house"])
    for resident in houses:
        indexes, where = resident.indexes, [str(resident.indexes.house)]
        head.add_metric(where, indexes.head)
        if indexes.heard_at is not None:
            age.add_metric(where, time.monotonic() - indexes.heard_at)
        if indexes.head_recorded_at is not None:
            idle.add_metric(where, max(0.0, time.time() - indexes.head_recorded_at.timestamp()))
        signals.add_metric(where, resident.signals.waiting)
    yield from (head, age, idle, signals)


def _one(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _read(name: str, about: str, label: str | None, found: float | Mapping[str, float]) -> Metric:
    if not isinstance(found, Mapping):
        return _one(name, about, found)
    family = GaugeMetricFamily(name, about, labels=[label or "what"])
    for word, value in found.items():
        family.add_metric([word], value)
    return family
