"""The arguments and options that several commands share, each said once."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

EVIDENCE = "Evidence: what it rests on"

Memory = Annotated[str, typer.Argument(metavar="MEMORY", help="Id of a memory, or the key of an active one.")]
Scope = Annotated[str, typer.Argument(metavar="SCOPE", help="own, house, the name of a scope that you see, or its id.")]
Reason = Annotated[str | None, typer.Option(help="Why, in words; kept on the stream.", show_default=False)]
EventId = Annotated[
    UUID | None,
    typer.Option(help="Makes it safe to repeat: a second time gives the first answer.", show_default=False),
]
Expected = Annotated[
    int | None, typer.Option("--expect-version", help="Only if it is still at this version.", show_default=False)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", envvar="SUBSTRATE_YES", help="Do not ask.")]
ShowToken = Annotated[
    bool, typer.Option("--show-token", help="Print the token, this once; otherwise it is only saved.")
]
House = Annotated[
    str | None,
    typer.Option("--house", help="Which house, by id or name; not needed if there is one.", show_default=False,
                 envvar="SUBSTRATE_HOUSE"),
]  # fmt: skip

# ------------------------------------------------------------------ the local indexes

INDEXES = "The local indexes"
#: Seconds to wait for an index, where nothing is said.
PATIENCE = 10.0
Runtime = Annotated[
    str | None,
    typer.Option("--runtime", envvar="SUBSTRATE_RUNTIME", metavar="NAME", show_default="local", rich_help_panel=INDEXES,
                 help="The runtime whose indexes are used."),
]  # fmt: skip
NoWait = Annotated[
    bool,
    typer.Option("--no-wait", rich_help_panel=INDEXES,
                 help="Answer from the index as it is, without catching up with the stream."),
]  # fmt: skip
Timeout = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, rich_help_panel=INDEXES, help="How long to wait for the index, at most."),
]

# ------------------------------------------------------------------ what a memory says

Kind = Annotated[
    str,
    typer.Option(
        help="fact, rule, instruction, observation, preference, commitment, summary, association or file",
        metavar="KIND",
    ),
]
Category = Annotated[str, typer.Option(help="core, daily or conversation", metavar="CATEGORY")]
Tier = Annotated[str, typer.Option(help="hot, warm or cold", metavar="TIER")]
Key = Annotated[str | None, typer.Option(help="Unique among the active of its scope.", show_default=False)]
Title = Annotated[str | None, typer.Option(show_default=False, help="A headline.")]
Description = Annotated[str | None, typer.Option(show_default=False, help="What it is about, in a sentence.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", "-t", show_default=False, help="A tag; may be repeated.")]
Concepts = Annotated[list[str] | None, typer.Option("--concept", show_default=False, help="A concept tag; repeatable.")]
Confidence = Annotated[float | None, typer.Option(show_default=False, help="From 0 to 1.")]
ValidFrom = Annotated[str | None, typer.Option(metavar="TIME", show_default=False, help="It holds from then on.")]
ValidTo = Annotated[str | None, typer.Option(metavar="TIME", show_default=False, help="It holds until then.")]
PointInTime = Annotated[
    str | None, typer.Option("--at", metavar="TIME", show_default=False, help="It was so at this moment.")
]
Expires = Annotated[
    str | None, typer.Option("--expires", metavar="TIME", show_default=False, help="Not shown any more after that.")
]

# ------------------------------------------------------------------ evidence

Method = Annotated[
    str | None,
    typer.Option(
        metavar="METHOD", show_default=False, rich_help_panel=EVIDENCE,
        help="told, observed, inferred, extracted, imported or merged",
    ),
]  # fmt: skip
Session = Annotated[
    str | None,
    typer.Option(envvar="SUBSTRATE_SESSION", show_default=False, rich_help_panel=EVIDENCE, help="The conversation."),
]
Run = Annotated[
    str | None, typer.Option(envvar="SUBSTRATE_RUN", show_default=False, rich_help_panel=EVIDENCE, help="The run.")
]
Messages = Annotated[
    list[str] | None,
    typer.Option("--message", show_default=False, rich_help_panel=EVIDENCE, help="Id of a message; repeatable."),
]
Quote = Annotated[
    str | None, typer.Option(show_default=False, rich_help_panel=EVIDENCE, help="The words it was learned from.")
]
Model = Annotated[
    str | None, typer.Option(show_default=False, rich_help_panel=EVIDENCE, help="The model that extracted it.")
]
DerivedFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--from", metavar="MEMORY[@VERSION]", show_default=False, rich_help_panel=EVIDENCE,
        help="A memory it was derived from (as it is now, or at a version); repeatable.",
    ),
]  # fmt: skip
