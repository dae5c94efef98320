"""The doors of the suite, by name."""

from __future__ import annotations

from tests.conformance.door import Way
from tests.conformance.ways.asynchronous import AsyncWay
from tests.conformance.ways.cli import CliWay
from tests.conformance.ways.http import HttpWay
from tests.conformance.ways.langgraph import LangGraphWay
from tests.conformance.ways.mcp import McpHttpWay, McpStdioWay
from tests.conformance.ways.python import PythonWay
from tests.conformance.ways.tools import ToolsWay

WAYS: dict[str, type[Way]] = {
    way.name: way for way in (PythonWay, AsyncWay, ToolsWay, McpHttpWay, McpStdioWay, HttpWay, CliWay, LangGraphWay)
}
