"""The rooms are importable as parts of `lethe` only, and every list that names them names them all."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = sorted(link.name for link in (ROOT / "lethe").iterdir() if link.is_symlink())


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_cannot_be_imported_under_its_bare_name(room: str) -> None:
    done = subprocess.run(
        (sys.executable, "-c", f"import {room}"), cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert f"ImportError: import lethe.{room}" in done.stderr


def test_every_list_of_rooms_has_them_all() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    build, banned = tools["hatch"]["build"], tools["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {name for name in banned if "mock" not in name} == {*ROOMS}
    assert sorted(name for name in build["only-include"] if "/" not in name) == ROOMS
    assert build["targets"]["wheel"]["sources"] == {room: f"lethe/{room}" for room in ROOMS}
    copied = re.findall(r"^COPY (\w+) \1$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    assert sorted({*ROOMS, "lethe", "requirements"}) == sorted(copied)
    let_through = re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert {*ROOMS, "lethe"} <= set(let_through)


def test_links_lead_to_the_rooms_beside_them() -> None:
    for room in ROOMS:
        assert (ROOT / "lethe" / room).readlink() == Path("..", room)
