"""Frames that are fed each time: those that were handled wrongly once, and lies that need no search.

In `kept.txt` a line is: the target, the bytes in hex, why. `make fuzz` prints findings in this form.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.fuzz.target import Target
from tests.fuzz.targets import BY_NAME

FILE: Final = Path(__file__).with_name("kept.txt")


class Kept(NamedTuple):
    target: Target
    data: bytes
    why: str


def kept() -> Iterator[Kept]:
    """Raises KeyError where a target does not exist, ValueError where a line is no kept frame."""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            target, data, why = line.split(" | ")
            yield Kept(BY_NAME[target], bytes.fromhex(data), why)


def as_line(target: str, data: bytes, why: str) -> str:
    return " | ".join((target, data.hex(), " ".join(why.replace("|", "/").split())[:100]))
