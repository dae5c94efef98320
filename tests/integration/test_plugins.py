"""What other packages add by entry point: the example in examples/plugin, and one that is broken."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from projections.projection import plugins
from substrate.configuration import read
from substrate.doors.tools.backend import backend
from substrate.doors.tools.toolbox import Toolbox
from substrate.errors import Misconfigured
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from tests.hosts import hosted, runtime
from tests.installed import entry_points_of, install
from tests.residents import House
from tests.servers import DatabaseUrls
from tests.toolboxes import fails, ok

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "plugin"
MODULE = EXAMPLE / "substrate_example.py"


def forget_plugins() -> None:
    """What was looked up once is looked up again."""
    plugins.cache_clear()
    backend.cache_clear()
    sys.modules.pop("substrate_example", None)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install(
        "substrate-example",
        entry_points_of(EXAMPLE / "pyproject.toml"),
        tmp_path / "site",
        monkeypatch,
        substrate_example=MODULE.read_text(encoding="utf-8"),
    )
    forget_plugins()
    yield
    forget_plugins()


@pytest.fixture
def desk(installed: None, database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(
        database, tmp_path / "home", embedder="letters", reranker="shortest", tools="memory,keyed,counting",
        tools_backend="notebook",
    ) as opened:  # fmt: skip
        yield opened


@pytest.fixture
def house(desk: Runtime) -> House:
    return House.found(desk.world)


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


def test_the_example_registers_every_kind_of_plugin_that_there_is(installed: None) -> None:
    kinds = ["projections", "embedders", "rerankers", "deliverers", "backends", "tools"]
    for kind in kinds:
        assert "substrate-example" in {one.dist.name for one in entry_points(group=f"substrate.{kind}") if one.dist}


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (EXAMPLE.parent.parent / "docs" / "plugins.md").read_text(encoding="utf-8")
    points = (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    assert f"```python\n{MODULE.read_text(encoding='utf-8')}```" in page
    assert f"```toml\n{points[points.index('[project.entry-points') : points.index('[tool.')].rstrip()}\n```" in page


def test_the_settings_that_the_page_shows_can_be_used(tmp_path: Path) -> None:
    page = (EXAMPLE.parent.parent / "docs" / "plugins.md").read_text(encoding="utf-8")
    shown = tmp_path / "memory.yaml"
    shown.write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    settings = read(shown).settings
    assert (settings.embedder, settings.reranker, settings.tools_backend) == ("letters", "shortest", "notebook")
    assert "counting" in settings.tools


def test_a_projection_is_built_rebuilt_and_read_within_the_agents_rights(
    desk: Runtime, house: House, kate: HostedAgent
) -> None:
    leo = hosted(desk, house.leo)
    leo.remember("leo's own, which is long")
    kate.remember("tea")
    gone = kate.remember("cake")
    kate.remember("bins", scope="house", visible=True)
    kate.forget(gone.memory)
    kate.catch_up()
    assert ok(Toolbox(kate), "how_much") == {"memories": 2, "characters": 7}
    desk.resident(kate.house).indexes.rebuild()
    assert ok(Toolbox(kate), "how_much") == {"memories": 2, "characters": 7}


def test_an_embedder_and_a_reranker_are_those_of_the_settings(desk: Runtime, kate: HostedAgent) -> None:
    kate.remember("tea, of which there is always more than one could drink")
    kate.remember("tea", visible=True)
    desk.resident(kate.house).indexes.fill_vectors()
    answer = kate.recall("tea", mode="vector")
    assert answer.lacking == ()
    assert answer[0].content == "tea"


def test_a_deliverer_takes_the_reminders_of_its_name(desk: Runtime, kate: HostedAgent) -> None:
    ok(Toolbox(kate), "forge_reminder", message="tea", due="0s", plugin="pinboard")
    desk.deliver_due()
    board = desk.deliverers.get("pinboard")
    assert list(board.pinned.values()) == ["tea"]  # type: ignore[attr-defined]


def test_a_backend_stands_behind_the_four_keyed_tools(desk: Runtime, house: House, kate: HostedAgent) -> None:
    box = Toolbox(kate)
    ok(box, "save_memory", key="tea", content="Oolong")
    ok(box, "save_memory", key="today", content="paint", category="daily")
    assert [one["key"] for one in ok(box, "recall_memories", query="oolong")["memories"]] == ["tea"]
    assert [one["key"] for one in ok(box, "list_memories", category="daily")["memories"]] == ["today"]
    ok(box, "forget_memory", key="tea")
    assert fails(box, "forget_memory", key="tea")[0] == "not_found"
    assert kate.list().memories == []
    assert ok(Toolbox(hosted(desk, house.leo)), "list_memories")["memories"] == []


BROKEN = """
from pydantic import Field
from substrate.doors.tools.tool import Arguments, Tool

class Nothing(Arguments):
    pass

def fall(agent, given):
    raise KeyError("what kate said")

TOOLS = (Tool("fall", "Falls.", Nothing, fall), )
NO_TOOLS = ("memory",)

class Backend:
    def save(self, agent, key, content, category):
        raise OSError("disk full of " + content)
"""
POINTS = """
[substrate.tools]
falling = broken_plugin:TOOLS
wrong = broken_plugin:NO_TOOLS
absent = broken_plugin:NOTHING
memory = broken_plugin:TOOLS
[substrate.backends]
falling = broken_plugin:Backend
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install("broken-plugin", POINTS, tmp_path / "site", monkeypatch, broken_plugin=BROKEN)
    yield
    sys.modules.pop("broken_plugin", None)
    backend.cache_clear()


@pytest.mark.parametrize(
    ("name", "told"), [("wrong", "no sequence of Tool"), ("absent", "cannot be loaded: AttributeError")]
)
def test_a_set_that_cannot_be_used_fails_with_its_name(
    broken: None, database: DatabaseUrls, tmp_path: Path, name: str, told: str
) -> None:
    with runtime(database, tmp_path / "home") as opened:
        agent = hosted(opened, House.found(opened.world).kate)
        with pytest.raises(Misconfigured, match=rf"substrate\.tools: '{name}'.*{told}"):
            Toolbox(agent, ["memory", name])
        with pytest.raises(Misconfigured, match=r"no 'nonsense'; there are memory, .*graph, absent, falling"):
            Toolbox(agent, ["nonsense"])
        assert "memory" in Toolbox(agent, ["memory"]).tools


def test_what_a_plugin_raises_is_an_answer_that_names_it_and_repeats_no_text(
    broken: None, database: DatabaseUrls, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with runtime(database, tmp_path / "home", tools_backend="falling") as opened:
        box = Toolbox(hosted(opened, House.found(opened.world).kate), ["falling", "keyed"])
        code, message = fails(box, "fall")
        assert code == "unavailable"
        assert message == "the tool 'fall' of 'falling' failed with KeyError; its log says more"
        code, message = fails(box, "save_memory", key="a", content="secret")
        assert message == "the backend 'falling' failed with OSError; its log says more"
    assert "failed: KeyError" in caplog.text
    assert "kate said" not in caplog.text
    assert "disk full of" not in caplog.text


def test_a_backend_that_there_is_not_is_told_which_there_are(database: DatabaseUrls, tmp_path: Path) -> None:
    with runtime(database, tmp_path / "home", tools_backend="nonsense") as opened:
        box = Toolbox(hosted(opened, House.found(opened.world).kate), ["keyed"])
        code, message = fails(box, "list_memories")
        assert code == "misconfigured"
        assert "no 'nonsense'; there are substrate" in message


def test_a_projection_that_cannot_be_loaded_fails_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[substrate.projections]\nlost = no_such_module:Lost\n"
    install("lost-plugin", points, tmp_path / "site", monkeypatch)
    plugins.cache_clear()
    try:
        with pytest.raises(
            Misconfigured, match=r"substrate\.projections: 'lost' cannot be loaded: ModuleNotFoundError"
        ):
            plugins()
    finally:
        monkeypatch.undo()
        plugins.cache_clear()
