"""Being rid of text, keeping it by law, and the sweep of retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.learning import receipt_answer
from substrate.doors.cli.naming import resident
from substrate.doors.cli.tree import ERASE, app, retention
from substrate.errors import InvalidInput

if TYPE_CHECKING:
    from substrate.world.erasure_receipt import By, ErasureReceipt

# Without environment twins: nothing is erased because a variable happened to be set.
Source = Annotated[str | None, typer.Option(show_default=False, help="Everything that it gave text to.")]


@command(
    app,
    panel=ERASE,
    examples=[
        "substrate erase secret --dry-run",
        "substrate erase --session monday --include-derived --yes",
        "substrate erase secret --now --yes",
    ],
)
def erase(
    here: Here,
    *,
    memory: Annotated[
        str | None, typer.Argument(metavar="[MEMORY]", show_default=False, help="Id or key of one memory; or give a source.")
    ] = None,
    session: Source = None,
    run: Source = None,
    runtime: Source = None,
    agent: Source = None,
    person: Annotated[
        str | None, typer.Option(show_default=False, help="All they gave, and all in their scope, which is removed.")
    ] = None,
    house: Annotated[
        str | None, typer.Option("--house", show_default=False, help="As operator, in this house, without reading it.")
    ] = None,
    include_derived: Annotated[bool, typer.Option("--include-derived", help="Also what was made of it.")] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Also the bytes on disk; locks the tables while they are rewritten.")
    ] = False,
    reason_code: Annotated[str | None, typer.Option(show_default=False, help="A code; no text, it stays.")] = None,
    dry_run: o.DryRun = False,
    yes: o.Yes = False,
) -> Answer:  # fmt: skip
    """Erase the text of a memory, or of all that a source gave, for good. It takes x on the scope, or above it.

    The answer says for each store how and by when the text is gone, and what was left, and why.
    """
    given: dict[By, str | None] = {
        "memory": memory,
        "session": session,
        "run": run,
        "runtime": runtime,
        "agent": agent,
        "person": person,
    }
    named = {by: value for by, value in given.items() if value is not None}
    if len(named) != 1:
        raise InvalidInput("say what to erase: one memory, or one of --session, --run, --runtime, --agent and --person")
    ((by, value),) = named.items()

    def erased(*, only_look: bool) -> ErasureReceipt:
        how: dict[str, Any] = {
            "include_derived": include_derived, "now": now, "reason_code": reason_code, "dry_run": only_look,
        }  # fmt: skip
        if house is not None:
            which = here.house(house)
            meant = resident(here.operator.agents(which), value).id if by in ("agent", "person") else value
            return here.operator.erase(which, by, meant, **how)
        if by == "memory":
            return here.agent.erase(here.names.memory(value), **how)
        source: Any = here.names.scope(value) if by in ("agent", "person") else value
        return here.agent.erase_where(**{by: source}, **how)

    if dry_run:
        return _answer(erased(only_look=True))
    if not yes:
        would = erased(only_look=True)
        many = output.count(len(would.erased), "memory", "memories")
        here.confirm(f"Erase the text of {many} ({by} {value}) for good?", yes=False)
    return _answer(erased(only_look=False))


@command(app, panel=ERASE, examples=['substrate hold contract --reason "case 17"'])
def hold(here: Here, memory: o.Memory, reason: o.Reason = None) -> Answer:
    """Put a memory under legal hold: until `release` nobody erases it, nor does retention."""
    return receipt_answer(here.agent.hold(here.names.memory(memory), reason), "held")


@command(app, panel=ERASE, examples=["substrate release contract"])
def release(here: Here, memory: o.Memory, reason: o.Reason = None) -> Answer:
    """End the legal hold on a memory."""
    return receipt_answer(here.agent.release(here.names.memory(memory), reason), "released")


@command(retention, "sweep", examples=["substrate retention sweep --dry-run"])
def sweep(here: Here, house: o.House = None, dry_run: o.DryRun = False) -> Answer:
    """Forget or erase what has outlived its scope's rule, as the operator: no text is read. Run it from time to time."""
    report = here.operator.apply_retention(here.house(house), dry_run=dry_run)
    rows = [(one.memory, one.action, one.cause, one.position.seq if one.position else "") for one in report.swept]
    shown: list[Any] = [output.table(["id", "action", "cause", "seq"], rows, empty="nothing is due")]
    shown += [f"left for the next sweep: {memory} ({code})" for memory, code in report.failed]
    return Answer(report, shown, code=1 if report.failed else 0)


def _answer(receipt: ErasureReceipt) -> Answer:
    verb = "would be erased" if receipt.dry_run else "erased"
    many = output.count(len(receipt.erased), "memory", "memories")
    shown: list[Any] = [f"{many} {verb} ({receipt.by} {receipt.value})"]
    shown += [f"  {memory}" for memory in receipt.erased[:50]]
    if len(receipt.erased) > 50:
        shown.append(f"  and {len(receipt.erased) - 50} more")
    shown += [f"left: {one.memory} ({one.reason})" for one in receipt.skipped]
    if receipt.derived:
        shown.append(f"made of it, and not erased (see --include-derived): {', '.join(map(str, receipt.derived))}")
    if receipt.not_permitted:
        shown.append(f"not yours to erase: {receipt.not_permitted}")
    if receipt.already_erased:
        shown.append(f"erased before: {receipt.already_erased}")
    if receipt.scope_erased is not None:
        shown.append(f"scope {receipt.scope_erased}: {verb}, with its name and tokens")
    rows = [
        (one.store, "gone" if one.done else "not yet", one.count, one.mechanism, one.deadline) for one in receipt.stores
    ]
    shown += ["", output.table(["store", "", "count", "how", "by when"], rows)]
    return Answer(receipt, shown)
