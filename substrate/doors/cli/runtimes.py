"""How runtimes and their indexes are shown in `substrate status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from substrate.doors.cli import output

if TYPE_CHECKING:
    from substrate.world.reports import ProjectionReport, RuntimeReport

_COLUMNS = ["runtime", "house", "index", "version", "seq", "lag", "vectors to come", "dead letters", "fault", "heard"]


def shown(reports: list[RuntimeReport]) -> list[Any]:
    """One line an index, the runtime's own facts on its first; and what to do where something is wrong."""
    if not reports:
        return ["no runtime has indexes yet; the first `substrate recall` builds them"]
    rows = [row for report in reports for row in _rows(report)]
    return [output.table(_COLUMNS, rows), *_advice(reports)]


def _rows(report: RuntimeReport) -> list[tuple[object, ...]]:
    first, *others = [_index(one, report.head) for one in report.projections or (None,)]
    return [
        (report.name, report.house_name, *first, _heard(report)),
        *(("", "", *other, "") for other in others),
    ]


def _index(one: ProjectionReport | None, head: int) -> tuple[object, ...]:
    if one is None:
        return ("none", "", f"0 of {head}", head, "", "", "")
    pending = one.pending if one.name == "vector" or one.pending else ""
    return (one.name, one.version, f"{one.position} of {head}", one.lag, pending, one.dead_letters, one.fault)


def _advice(reports: list[RuntimeReport]) -> list[str]:
    found = [f"runtime {one.name}, house {one.house_name}: {one.failure}" for one in reports if one.failure]
    found += [
        f"runtime {one.name}, house {one.house_name}: silent for {_ago(one.silent_for).removesuffix(' ago')}, and it did not"
        " say that it ends: it was killed, or does not reach the database"
        for one in reports
        if one.stale
    ]
    if any(index.dead_letters for one in reports for index in one.projections):
        found.append("`substrate dead-letters --runtime NAME` shows what could not be applied")
    if any(index.fault for one in reports for index in one.projections):
        found.append("an index at fault is built anew at the next recall, or now with `substrate rebuild`")
    return found


def _heard(report: RuntimeReport) -> str:
    return _ago(report.silent_for) + (", silent" if report.stale else ", ended" if report.ended else "")


def _ago(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{max(0, seconds):.0f} s ago"
