"""Reading memories: get, list, links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import naming, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import READ, app

if TYPE_CHECKING:
    from substrate.doors.cli.naming import Names
    from substrate.world.model import Memory

Word = Annotated[str | None, typer.Option(show_default=False, help="Only of this one.")]


@command(app, panel=READ, examples=["substrate get indent", "substrate get indent --json"])
def get(
    here: Here,
    memory: o.Memory,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="SCOPE", show_default=False, help="Look for the key only there.")
    ] = None,
) -> Answer:
    """Show a memory as it is now, whatever its status."""
    ident = naming.as_uuid(memory)
    if ident is not None:
        found = here.agent.get(ident)
    else:
        found = here.agent.get_by_key(memory, scope=None if scope is None else here.names.scope(scope))
    return Answer(found, memory_shown(found, here.names))


@command(
    app,
    "list",
    panel=READ,
    examples=["substrate list --scope house --kind rule", "substrate list --tag style --limit 20 --json"],
)
def list_memories(
    here: Here,
    *,
    scope: Annotated[str | None, typer.Option("--scope", metavar="SCOPE", show_default=False,
                                              help="Only of this scope; otherwise of all you read.")] = None,
    kind: Word = None,
    category: Word = None,
    tier: Word = None,
    status: Annotated[str, typer.Option(help="active, superseded, forgotten, erased, or any")] = "active",
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", show_default=False,
                                                  help="That have this tag; repeatable, all must be there.")] = None,
    key_prefix: Annotated[str | None, typer.Option(show_default=False, help="Whose key begins with this.")] = None,
    taught_by: Annotated[str | None, typer.Option(metavar="AGENT", show_default=False, help="That it taught.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", show_default=False, help="Learned then or later.")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", show_default=False, help="Learned before.")] = None,
    expired: Annotated[bool, typer.Option("--expired", help="Also what has expired.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many on a page, at most 1000.")] = 50,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", show_default=False,
                                              help="Where the page before ended.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All pages, not just one.")] = False,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="In the order they were learned.")] = False,
) -> Answer:  # fmt: skip
    """List memories of the scopes you read, newest first."""
    filters: dict[str, Any] = {
        "scope": None if scope is None else here.names.scope(scope),
        "kind": known_word(kind, "kind"),
        "category": known_word(category, "category"),
        "tier": known_word(tier, "tier"),
        "status": None if status == "any" else known_word(status, "status"),
        "tags": tag or (),
        "key_prefix": key_prefix,
        "taught_by": None if taught_by is None else here.names.scope(taught_by),
        "learned_after": naming.optional_instant(since, "--since"),
        "learned_before": naming.optional_instant(before, "--before"),
        "include_expired": expired,
        "limit": 1_000 if everything else limit,
        "newest_first": not oldest_first,
    }
    page = here.agent.list(**filters, after=after)
    memories, cursor = page.memories, page.next
    while everything and cursor is not None:
        page = here.agent.list(**filters, after=cursor)
        memories, cursor = [*memories, *page.memories], page.next
    shown: list[Any] = [memories_shown(memories, here.names)]
    if cursor is not None:
        shown.append(f"there is more: add --all, or --after {cursor}")
    return Answer({"memories": memories, "next": cursor}, shown)


@command(app, panel=READ, examples=["substrate links indent"])
def links(here: Here, memory: o.Memory) -> Answer:
    """Show the links from and to a memory whose other end you may read, too."""
    found = here.agent.links(here.names.memory(memory))
    rows = [(one.from_id, one.relation, one.to_id, one.weight) for one in found]
    return Answer(found, output.table(["from", "relation", "to", "weight"], rows, empty="no links"))


# ------------------------------------------------------------------ how


def known_word(word: str | None, what: str) -> str | None:
    """A word to filter by. Raises `UnknownKind` for one outside the vocabulary: it would find nothing, and not say why."""
    from substrate.errors import UnknownKind
    from substrate.world.model import CATEGORIES, KINDS, STATUSES, TIERS

    known: tuple[str, ...] = {"kind": KINDS, "category": CATEGORIES, "tier": TIERS, "status": STATUSES}[what]
    if word is not None and word not in known:
        raise UnknownKind(f"{what}: {word!r} is not one of {', '.join(known)}")
    return word


def memories_shown(memories: list[Memory], names: Names) -> Any:
    """A table with one line a memory."""
    rows = [
        (
            one.id,
            names.of(one.parent_id),
            one.kind,
            one.key,
            _says(one),
        )
        for one in memories
    ]
    return output.table(["id", "in", "kind", "key", "says"], rows, empty="no memories")


def _says(memory: Memory) -> str:
    if memory.content is None:
        return "(its text was erased)"
    # Brought in from a page, all under one heading have its title.
    return output.brief(f"{memory.title}: {memory.content}" if memory.title else memory.content)


def memory_shown(memory: Memory, names: Names) -> list[Any]:
    """One memory, whole: what it says, then what is known about it."""
    about: dict[str, object] = {
        "id": memory.id, "in": names.of(memory.parent_id), "kind": f"{memory.kind}, {memory.category}, {memory.tier}",
        "key": memory.key, "title": memory.title, "description": memory.description, "tags": memory.tags,
        "concepts": memory.concept_tags, "confidence": memory.confidence, "valid from": memory.valid_from,
        "valid to": memory.valid_to, "at": memory.point_in_time, "expires": memory.expires_at,
        "status": memory.status + (" (under legal hold)" if memory.held else ""),
        "superseded by": memory.superseded_by, "taught by": names.of(memory.taught_by),
        "reinforced": memory.reinforcements or None, "version": memory.version, "learned": memory.learned_at,
        "changed": memory.updated_at,
    }  # fmt: skip
    return [memory.content if memory.content is not None else "(its text was erased)", "", output.fields(about)]
