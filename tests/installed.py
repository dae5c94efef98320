"""Packages of others, installed for a test: a module and its .dist-info on the path, as pip leaves them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest


def install(name: str, entry_points: str, into: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    """Put a package's metadata on the path, and beside it its modules, each with its source."""
    info = into / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    for module, source in modules.items():
        (into / f"{module}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(into)


def entry_points_of(pyproject: Path) -> str:
    """What a build would write into `entry_points.txt`."""
    groups = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["entry-points"]
    return "\n".join(
        f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in points.items()) for group, points in groups.items()
    )
