"""Which items a filter means, and which namespaces a condition means: as LangGraph's Postgres store answers it.

A filter's fields are those at the top of a value. A field that is not there matches nothing, not even `$ne`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import MatchCondition

OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
#: Says that a value does not have the field.
_ABSENT: Any = object()


def check_filter(wanted: Mapping[str, Any] | None) -> None:
    """Raise `ValueError` for an operator that there is not, also where no item would be looked at."""
    for condition in (wanted or {}).values():
        if isinstance(condition, Mapping):
            names = [str(name) for name in condition]
            if any(name.startswith("$") for name in names):
                for name in names:
                    if name not in OPERATORS:
                        raise ValueError(f"Unsupported operator: {name}")
            else:
                check_filter(condition)


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether a value is what a filter wants; see `check_filter`."""
    return all(_meets(value.get(field, _ABSENT), condition) for field, condition in (wanted or {}).items())


def _meets(found: Any, condition: Any) -> bool:
    if not isinstance(condition, Mapping):
        return found is not _ABSENT and same(found, condition)
    if any(str(name).startswith("$") for name in condition):
        return all(_holds(found, str(name), operand) for name, operand in condition.items())
    if not condition:
        return True
    return isinstance(found, Mapping) and matches(found, condition)


def _holds(found: Any, operator: str, operand: Any) -> bool:
    if found is _ABSENT:
        return False
    if operator in ("$eq", "$ne"):
        return same(found, operand) is (operator == "$eq")
    if found is None:
        return False
    order = _order(found, operand)
    return {"$gt": order > 0, "$gte": order >= 0, "$lt": order < 0, "$lte": order <= 0}[operator]


def _order(found: Any, operand: Any) -> int:
    """Numbers by what they are worth; all else by its text, as Postgres has it (`->>`)."""
    a, b = (found, operand) if _number(found) and _number(operand) else (_text(found), str(operand))
    return int(a > b) - int(a < b)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same JSON: 1 and 1.0 are, 1 and true are not."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)


def meant(namespace: Sequence[str], conditions: Sequence[MatchCondition] | None) -> bool:
    """Whether a namespace meets all conditions. `*` stands for any one label."""
    return all(_fits(namespace, condition) for condition in conditions or ())


def _fits(namespace: Sequence[str], condition: MatchCondition) -> bool:
    size = len(condition.path)
    if size > len(namespace):
        return False
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    part = namespace[:size] if condition.match_type == "prefix" else namespace[len(namespace) - size :]
    return all(wanted in ("*", label) for wanted, label in zip(condition.path, part, strict=True))
