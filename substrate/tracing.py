"""Traces, where a collector is configured: `OTEL_EXPORTER_OTLP_ENDPOINT` says where it is.

Without that nothing of OpenTelemetry is imported, and a span costs a look at one variable. Attributes are ids, counts and
words of our own: never content, a query or a name. Spans of a run have the run's id as their trace id.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from uuid import UUID

from substrate.whereabouts import here

log = logging.getLogger(__name__)

_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_NOTHING: AbstractContextManager[None] = nullcontext()
_lock = threading.Lock()
_provider: Any = None
_tracer: Any = None
_users = 0


def configured() -> bool:
    """Whether the environment names a collector."""
    return (
        any(os.environ.get(name) for name in _VARIABLES) and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"
    )


def start(runtime: str) -> None:
    """Send traces from now on, if a collector is configured. Each call wants a `stop`."""
    global _provider, _tracer, _users  # noqa: PLW0603 - one exporter a process
    with _lock:
        _users += 1
        if _tracer is None and configured():
            try:
                _provider = _made(runtime)
            except ImportError:
                log.warning("a collector is configured, and no traces are sent: install substrate-memory[telemetry]")
                return
            _tracer = _provider.get_tracer("substrate")


def stop() -> None:
    """Send what waits, and end with the last who started."""
    global _provider, _tracer, _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users == 0 and _provider is not None:
            _provider.shutdown()
            _provider = _tracer = None


def span(name: str, **attributes: str | int | float | bool | None) -> AbstractContextManager[Any]:
    """A span around what follows; it yields None where nobody traces."""
    return _NOTHING if _tracer is None else _span(name, attributes)


def record(name: str, began: int, **attributes: str | int | float | bool) -> None:
    """A span that began at `began` (nanoseconds since 1970) and ends now: for who knows only then that it mattered."""
    if _tracer is not None:
        _tracer.start_span(name, start_time=began, attributes=_named(attributes)).end()


def now() -> int:
    return time.time_ns()


def traceparent(run: str) -> str:
    """The W3C trace context of a run, for a request that is sent on its behalf."""
    span_id = f"{UUID(run).int & (1 << 64) - 1:016x}"
    if _tracer is not None:
        from opentelemetry.trace import get_current_span

        context = get_current_span().get_span_context()
        if context.is_valid and context.trace_id == UUID(run).int:
            span_id = f"{context.span_id:016x}"
    return f"00-{UUID(run).hex}-{span_id}-01"


@contextmanager
def _span(name: str, attributes: dict[str, Any]) -> Iterator[Any]:
    from opentelemetry.trace import Status, StatusCode

    with _tracer.start_as_current_span(
        name, attributes=_named(attributes), record_exception=False, set_status_on_exception=False
    ) as made:
        try:
            yield made
        except BaseException as error:
            # The message may quote what was asked, or what is known; the type does not.
            made.set_status(Status(StatusCode.ERROR, getattr(error, "code", None) or type(error).__name__))
            raise


def _named(attributes: dict[str, Any]) -> dict[str, Any]:
    place = here()
    around = {"runtime": place.runtime, "house": place.house, "session": place.session, "run": place.run}
    return {f"substrate.{name}": value for name, value in {**around, **attributes}.items() if value is not None}


def _made(runtime: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class RunIds(RandomIdGenerator):
        """The first span of a run begins the trace that has the run's id."""

        def generate_trace_id(self) -> int:
            run = here().run
            try:
                return UUID(run).int if run else super().generate_trace_id()
            except ValueError:  # a run of the caller's own naming
                return super().generate_trace_id()

    resource = Resource.create(
        {"service.name": os.environ.get("OTEL_SERVICE_NAME", "substrate"), "substrate.runtime": runtime}
    )
    # Of our own, not the process's global one: whoever embeds us has their own traces.
    made = TracerProvider(resource=resource, id_generator=RunIds(), shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made
