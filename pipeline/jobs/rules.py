"""By which rules gold tables are made: which topics count as unused, and from when on a deletion is stuck.

The lake remembers them, so that whoever makes a table anew without having been told any goes by the same. Otherwise a
run over the journal alone would name as candidates for deletion what the run before it was told to protect. What is
said changes what is remembered, each thing by itself; said patterns take the place of the remembered ones.

They stand in `_rules/00000001.json`, each change in a file of its own that is complete when it gets its name; the one
with the highest number counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from pipeline.io.files import Item
from pipeline.io.lake import LakeUnusable
from pipeline.transforms.candidates import StaleRule
from pipeline.transforms.stuck import DEFAULT_THRESHOLD_MS

PLACE: Final = "_rules"
_ENDING: Final = ".json"


class Place(Protocol):
    """What is needed of `pipeline.io.files.Files`."""

    @property
    def root(self) -> str: ...
    def items(self, path: str) -> list[Item]: ...
    def make_directory(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def write_text(self, path: str, text: str) -> None: ...
    def read_text(self, path: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds; as it stands here, where nobody has ever said anything."""

    stale: StaleRule = field(default_factory=StaleRule)
    stuck_after_ms: int = DEFAULT_THRESHOLD_MS


class Wishes(NamedTuple):
    """What somebody says of the rules; None where nothing, so that what is remembered holds."""

    unwritten_days: float | None = None
    protected: tuple[str, ...] | None = None
    force: bool = False
    """Allows the days to be less than one."""
    stuck_after_ms: int | None = None

    def on(self, before: Rules) -> Rules:
        """The rules from now on. Raises ValueError for too few days."""
        stale = before.stale
        days, protected, force = stale.unwritten_days, stale.protected, stale.force
        if self.unwritten_days is not None:
            days, force = self.unwritten_days, self.force
        if self.protected is not None:
            protected = self.protected
        after_ms = before.stuck_after_ms if self.stuck_after_ms is None else self.stuck_after_ms
        return Rules(StaleRule(days, tuple(protected), force=force), after_ms)


def settled(files: Place, wishes: Wishes) -> Rules:
    """The rules that hold for this lake from now on, remembered. Inside `lake.writer`. Raises LakeUnusable, FileTrouble
    and ValueError."""
    number, before = _remembered(files)
    rules = wishes.on(before)
    if not number or rules != before:
        _remember(files, number + 1, rules)
    return rules


def _remembered(files: Place) -> tuple[int, Rules]:
    """The number of what is remembered, 0 where nothing is."""
    found = [item for item in files.items(f"{files.root}/{PLACE}") if item.name.endswith(_ENDING)]
    if not found:
        return 0, Rules()
    newest = found[-1]
    try:
        said = json.loads(files.read_text(newest.path))
        stale = StaleRule(float(said["unwritten_days"]), tuple(map(str, said["protected"])), force=bool(said["forced"]))
        return int(newest.name.removesuffix(_ENDING)), Rules(stale, int(said["stuck_after_ms"]))
    except (ValueError, TypeError, KeyError) as error:
        raise LakeUnusable(
            f"{newest.path} does not say which topics count as unused and which are protected ({error!r}): remove it, "
            "and say it anew with --unwritten-days and --protect"
        ) from error


def _remember(files: Place, number: int, rules: Rules) -> None:
    place = f"{files.root}/{PLACE}"
    said = {
        "unwritten_days": rules.stale.unwritten_days,
        "protected": [*rules.stale.protected],
        "forced": rules.stale.force,
        "stuck_after_ms": rules.stuck_after_ms,
    }
    name = f"{number:08}{_ENDING}"
    files.make_directory(place)
    files.write_text(f"{place}/.{name}", json.dumps(said) + "\n")
    files.rename(f"{place}/.{name}", f"{place}/{name}")
    for item in files.items(place):
        if item.name < name:
            files.remove(item.path)
