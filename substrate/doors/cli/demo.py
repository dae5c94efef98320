"""The demo: two runtimes in a house of their own."""

from __future__ import annotations

import time
from textwrap import fill
from typing import TYPE_CHECKING, Any

from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import SYSTEM, app

if TYPE_CHECKING:
    from substrate.doors.demo.story import Scene


@command(app, panel=SYSTEM, examples=["substrate demo", "substrate demo --json"])
def demo(here: Here) -> Answer:
    """Play a house with two runtimes in under a minute, and say what each scene shows.

    It has a database and files of its own, which are removed afterwards; nothing of yours is touched. Exits with 1 if a
    scene does not come as it should.
    """
    from substrate.doors.demo.stage import stage
    from substrate.doors.demo.story import play

    began, scenes = time.monotonic(), []
    with stage(here.say) as opened:
        for scene in play(opened):
            scenes.append(scene)
            if not here.as_json:
                output.write(_shown(len(scenes), scene))
    holds = all(scene.holds for scene in scenes)
    seconds = round(time.monotonic() - began, 1)
    end = [
        "",
        f"That took {seconds} s, setting up and removing a database included.",
        "Next: `substrate up`, and a house of your own" if holds else "Something did not come as it should: see above",
    ]
    return Answer({"ok": holds, "scenes": scenes, "seconds": seconds}, end, code=0 if holds else 1)


def _shown(number: int, scene: Scene) -> list[Any]:
    from rich.text import Text

    title = Text(f"{number}. {scene.title}", style="bold")
    about = [output.aside(line) for line in fill(scene.shows, 100).splitlines()]
    return ["", title, *about, *(f"   {line}" for line in scene.lines)]
