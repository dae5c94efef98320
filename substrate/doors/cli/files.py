"""File memory: look at files, change them, and bring a machine's folders and the records together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.learning import given_text
from substrate.doors.cli.provenance import history_shown
from substrate.doors.cli.tree import files as noun

if TYPE_CHECKING:
    from substrate.runtime.files.files import Files
    from substrate.runtime.files.report import FolderReport

Scope = Annotated[
    str,
    typer.Option("--scope", envvar="SUBSTRATE_SCOPE", metavar="SCOPE",
                 help="Whose files: own, house, a room by name, or an id."),
]  # fmt: skip
Path = Annotated[str, typer.Argument(metavar="PATH", help="The file, such as plans/spring.md.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads it from standard input.")]


def _files(here: Here, scope: str) -> Files:
    from substrate.runtime.files.files import Files

    return Files(here.agent, here.names.scope(scope), here.settings)


@command(noun, "list", examples=["substrate files list", "substrate files list plans --scope kitchen"])
def list_files(
    here: Here,
    prefix: Annotated[str, typer.Argument(metavar="[FOLDER]", help="Only what is in this folder.", show_default=False)] = "",
    scope: Scope = "own",
) -> Answer:  # fmt: skip
    """List files by path."""
    found = _files(here, scope).list(prefix)
    rows = [(file.path, file.size, file.version, here.names.of(file.taught_by), file.updated_at) for file in found]
    return Answer(found, output.table(["path", "bytes", "version", "by", "changed"], rows, empty="no files yet"))


@command(noun, examples=["substrate files show plans/spring.md"])
def show(here: Here, path: Path, scope: Scope = "own") -> Answer:
    """Print a file as it is."""
    file = _files(here, scope).read(path)
    return Answer(file, file.text.removesuffix("\n"))


@command(noun, examples=["substrate files view", "substrate files view /memories/plans/spring.md"])
def view(
    here: Here,
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="A path below /memories.")] = "/memories",
    scope: Scope = "own",
) -> Answer:
    """Show a folder or a file as a model with the file-style memory tool sees it."""
    from substrate.runtime.files.verbs import MemoryVerbs

    result = MemoryVerbs(_files(here, scope))({"command": "view", "path": path})
    return Answer(result, result.text, code=int(result.is_error))


@command(noun, examples=['substrate files write plans/spring.md "sow peas"', "substrate files write notes.md -"])
def write(here: Here, path: Path, text: Text, scope: Scope = "own", expect_version: o.Expected = None) -> Answer:
    """Write a whole file, new or not; with --expect-version 0 only a new one."""
    info = _files(here, scope).write(path, given_text(text), expected_version=expect_version)
    return Answer(info, f"wrote {info.path}, version {info.version}, {output.count(info.size, 'byte')}")


@command(noun, "edit", examples=['substrate files edit plans/spring.md "sow peas" "sow beans"'])
def edit(
    here: Here,
    path: Path,
    old: Annotated[str, typer.Argument(metavar="OLD", help="Text that is in the file exactly once.")],
    new: Annotated[str, typer.Argument(metavar="[NEW]", help="What takes its place; nothing, if left out.",
                                       show_default=False)] = "",
    scope: Scope = "own",
) -> Answer:  # fmt: skip
    """Replace a text in a file, which must be there exactly once."""
    made = _files(here, scope).str_replace(path, old, new)
    return Answer({"path": path, "first_line": made.first_line, "last_line": made.last_line}, f"edited {path}")


@command(noun, examples=['substrate files insert plans/spring.md 0 "# Spring"'])
def insert(
    here: Here,
    path: Path,
    line: Annotated[int, typer.Argument(metavar="LINE", min=0, help="After which line; 0 is before the first.")],
    text: Text,
    scope: Scope = "own",
) -> Answer:
    """Put lines after a line of a file."""
    made = _files(here, scope).insert(path, line, given_text(text))
    return Answer({"path": path, "first_line": made.first_line, "last_line": made.last_line}, f"edited {path}")


@command(noun, examples=["substrate files delete plans/spring.md"])
def delete(here: Here, path: Path, scope: Scope = "own") -> Answer:
    """Take away a file, or a folder with all that is in it; the history stays."""
    gone = _files(here, scope).delete(path)
    return Answer({"deleted": gone}, f"deleted {output.count(len(gone), 'file')}")


@command(noun, examples=["substrate files rename plans old-plans"])
def rename(
    here: Here,
    path: Path,
    to: Annotated[str, typer.Argument(metavar="TO", help="The new path.")],
    scope: Scope = "own",
) -> Answer:
    """Give a file another path, or a folder with all that is in it."""
    moved = _files(here, scope).rename(path, to)
    return Answer({"renamed": moved}, f"renamed {output.count(len(moved), 'file')}")


@command(noun, examples=["substrate files history plans/spring.md"])
def history(here: Here, path: Path, scope: Scope = "own") -> Answer:
    """Show all that happened to a file, oldest first, also under other names."""
    changes = _files(here, scope).history(path)
    return Answer(changes, history_shown(here, changes))


@command(noun, examples=["substrate files sync", "substrate files sync --as kate --json"])
def sync(here: Here, runtime: o.Runtime = None) -> Answer:
    """Bring this machine's folders and the records together, both ways."""
    here.hosted(runtime, catch_up=False)
    reports = here.runtime.file_folders.sync()
    return Answer(
        {"workspace": str(here.runtime.workspace), "folders": reports},
        [f"below {here.runtime.workspace}:", *(line for report in reports for line in _shown(report))],
    )


def _shown(report: FolderReport) -> list[Any]:
    counts = {
        "laid out": report.laid_out, "taken away": report.taken_away, "created": report.created, "edited": report.edited,
        "deleted": report.deleted, "renamed": report.renamed,
    }  # fmt: skip
    done = ", ".join(f"{len(paths)} {what}" for what, paths in counts.items() if paths)
    lines: list[Any] = [f"{report.folder}: {done or ('another process is at it' if report.busy else 'nothing to do')}"]
    lines += [f"    conflict: {path}; what was on disk is in {copy}" for path, copy in report.conflicts.items()]
    lines += [f"    not taken: {path}: {reason}" for path, reason in report.refused.items()]
    lines += [f"    passed over: {path}: {reason}" for path, reason in report.ignored.items()]
    lines += [f"    still being changed: {path}" for path in report.waiting]
    return lines
