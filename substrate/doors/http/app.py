"""The app: all routes over one runtime, MCP beside them, and what stands before them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import anyio.to_thread
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.routing import Route

from substrate.doors.http import problems
from substrate.doors.http.access import Access
from substrate.doors.http.hosts import LocalNames, is_loopback
from substrate.doors.http.inside import Inside
from substrate.doors.http.limits import BodyLimit, Rate, RateLimit
from substrate.doors.http.routes import ROOT, V1
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings

ABOUT = """\
What agents know, how they know it, and how to find it again.

Every request but those for health and for this document carries a token, which says who asks and what they reach. What
is not for you is not there: forbidden and absent give the same answer. Errors are `application/problem+json`.
"""
#: What FastAPI would tell a collector holds queries and the texts of errors; `substrate.tracing` tells what may be told.
NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


def create_app(runtime: Runtime, settings: Settings | None = None) -> FastAPI:
    """The HTTP API over a runtime, and MCP at /mcp, as an ASGI app. The runtime is not closed with it.

    Raises `Misconfigured` for sets of tools that there are not.
    """
    chosen = settings or runtime.settings
    app = _routed()
    app.state.inside = Inside.of(runtime, chosen)
    # A route and not a mount, which would answer below /mcp/ only.
    app.router.routes.append(Route("/mcp", app.state.inside.mcp.asgi, include_in_schema=False))
    problems.handle(app)
    # The last one added is the first to see a request.
    app.add_middleware(RateLimit, rate=Rate(chosen.http_rate))
    app.add_middleware(BodyLimit, most=chosen.http_max_body_bytes)
    if is_loopback(chosen.http_host) and chosen.http_trusted_proxy is None:  # a proxy passes on the name that it has
        app.add_middleware(LocalNames, host=chosen.http_host)
    app.add_middleware(Access)
    return app


def document() -> dict[str, Any]:
    """The OpenAPI document, for who wants it without a server."""
    return _routed().openapi()


def _routed() -> FastAPI:
    app = FastAPI(
        title="substrate", version=version("substrate-memory"), description=ABOUT, lifespan=_lifespan,
        docs_url=None, redoc_url=None, generate_unique_id_function=_operation, responses=problems.documented(),
        telemetry=NO_TELEMETRY,
    )  # fmt: skip
    for router in V1:
        app.include_router(router, prefix="/v1")
    for router in ROOT:
        app.include_router(router)
    app.openapi = _documented(app, app.openapi)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    inside: Inside = app.state.inside
    # As many as there are connections: more would only wait for one.
    anyio.to_thread.current_default_thread_limiter().total_tokens = inside.runtime.settings.pool_size
    async with inside.mcp.running():
        yield
        inside.let_go()


def _operation(route: APIRoute) -> str:
    """The name of the function is that of the operation, for who makes a client of the document."""
    return route.name


def _documented(app: FastAPI, made: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """The OpenAPI document, with the schema that all problems refer to."""

    def with_problems() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = made()
            schema = problems.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas = found.setdefault("components", {}).setdefault("schemas", {})
            schemas |= schema.pop("$defs", {})
            schemas["Problem"] = schema
        return made()

    return with_problems
