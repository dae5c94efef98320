"""A LangGraph store over the substrate: see docs/langgraph.md.

from substrate.doors.adapters.langgraph import SubstrateStore

store = SubstrateStore(runtime.agent(token), index={"fields": ["text"]})
store.put(("users", "ana"), "coffee", {"text": "likes it strong"})
store.search(("users",), query="what does she drink?")
"""

from __future__ import annotations

from substrate.doors.adapters.extras import missing

try:
    from substrate.doors.adapters.langgraph.asynchronous import AsyncSubstrateStore
    from substrate.doors.adapters.langgraph.store import SubstrateStore
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise missing("langgraph", "langgraph-checkpoint") from error

__all__ = ["AsyncSubstrateStore", "SubstrateStore"]
