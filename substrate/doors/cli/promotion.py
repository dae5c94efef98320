"""Sharing: propose a private memory to the house, and decide on what others propose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.learning import receipt_answer
from substrate.doors.cli.tree import SHARE, app
from substrate.errors import InvalidInput

if TYPE_CHECKING:
    from substrate.world.model import Proposal

Ident = Annotated[str, typer.Argument(metavar="PROPOSAL", help="Its id, as `proposals` shows it.")]
STATUSES = ("pending", "approved", "declined", "withdrawn", "any")


@command(app, panel=SHARE, examples=['substrate propose indent --reason "all need it"'])
def propose(
    here: Here,
    memory: o.Memory,
    to: Annotated[str, typer.Option(metavar="SCOPE", help="Who should take it over: the house, or a room.")] = "house",
    reason: o.Reason = None,
    event_id: o.EventId = None,
) -> Answer:
    """Show a private memory to those who hold x on the house, and ask them to take it over."""
    made = here.agent.propose_promotion(
        here.names.memory(memory), to=here.names.scope(to), reason=reason, event_id=event_id
    )
    return Answer(made, f"{made.id}  proposed to {to}, {made.status}")


@command(
    app,
    panel=SHARE,
    examples=[
        "substrate proposals",
        "substrate proposals 018f0000-0000-7000-8000-000000000000",
        "substrate proposals --status any --json",
    ],
)
def proposals(
    here: Here,
    proposal: Annotated[
        str | None, typer.Argument(metavar="[PROPOSAL]", show_default=False, help="Show this one as a whole.")
    ] = None,
    status: Annotated[str, typer.Option(help=", ".join(STATUSES))] = "pending",
) -> Answer:
    """List the proposals you made and those you may decide on; or show one as a whole, before you decide."""
    if proposal is not None:
        return _one(here, here.agent.proposal(proposal))
    if status not in STATUSES:
        raise InvalidInput(f"--status: {status!r} is not one of {', '.join(STATUSES)}")
    found = here.agent.proposals(None if status == "any" else status)  # type: ignore[arg-type]  # checked above
    rows = [
        (one.id, here.names.of(one.proposed_by), here.names.of(one.to_scope), one.status, _says(one)) for one in found
    ]
    return Answer(found, output.table(["id", "from", "to", "status", "says"], rows, empty="no proposals"))


@command(app, panel=SHARE, examples=["substrate approve 018f0000-0000-7000-8000-000000000000"])
def approve(
    here: Here,
    proposal: Ident,
    key: Annotated[str | None, typer.Option(show_default=False, help="Another key, where its own is taken.")] = None,
    reason: o.Reason = None,
    event_id: o.EventId = None,
) -> Answer:
    """Make what was proposed a memory of the house."""
    given: dict[str, Any] = {} if key is None else {"key": key}
    receipt = here.agent.approve_promotion(proposal, reason=reason, event_id=event_id, **given)
    return receipt_answer(receipt, "approved")


@command(app, panel=SHARE, examples=['substrate decline 018f0000-0000-7000-8000-000000000000 --reason "not for all"'])
def decline(here: Here, proposal: Ident, reason: o.Reason = None, event_id: o.EventId = None) -> Answer:
    """Say no to a proposal. The private memory is not touched."""
    declined = here.agent.decline_promotion(proposal, reason, event_id=event_id)
    return Answer(declined, f"{declined.id}  declined")


def _one(here: Here, found: Proposal) -> Answer:
    about = {
        "proposal": found.id, "status": found.status, "from": here.names.of(found.proposed_by),
        "to": here.names.of(found.to_scope), "proposed": found.proposed_at, "decided": found.decided_at,
        "decided by": None if found.decided_by is None else here.names.of(found.decided_by),
    }  # fmt: skip
    return Answer(found, output.fields({**about, **(found.shown or {"text": "erased"})}))


def _says(proposal: Proposal) -> str:
    shown = proposal.shown or {}
    return output.brief(str(shown.get("title") or shown.get("content") or "(erased)"))
