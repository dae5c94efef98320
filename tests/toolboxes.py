"""Toolboxes of those who live in a house, on a runtime that the tests of a module share."""

from __future__ import annotations

from typing import Any, NamedTuple

from substrate.doors.tools.sets import SETS
from substrate.doors.tools.toolbox import Toolbox
from substrate.runtime.runtime import Runtime
from tests.hosts import hosted
from tests.residents import House


class Boxes(NamedTuple):
    """The owner's, and those of two agents beside her: all sets there are."""

    owner: Toolbox
    kate: Toolbox
    leo: Toolbox

    @classmethod
    def of_a_new_house(cls, runtime: Runtime) -> Boxes:
        made = cls(*(Toolbox(hosted(runtime, one), SETS) for one in House.found(runtime.world)))
        made.owner.agent.catch_up()
        return made


def ok(box: Toolbox, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The answer of a call that works, without its `ok`."""
    answer = box.call(tool, arguments)
    assert answer.pop("ok") is True, answer
    return answer


def fails(box: Toolbox, tool: str, /, **arguments: Any) -> tuple[str, str]:
    """Code and message of a call that does not."""
    answer = box.call(tool, arguments)
    assert answer["ok"] is False, answer
    assert set(answer) == {"ok", "error"}
    return answer["error"]["code"], answer["error"]["message"]
