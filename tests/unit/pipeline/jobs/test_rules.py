"""The lake remembers by which rules its tables were made, each thing by itself."""

from __future__ import annotations

import pytest

from lethe.cli.stale_rule import wishes
from lethe.pipeline.io.files import Item
from lethe.pipeline.io.lake import LakeUnusable
from lethe.pipeline.jobs.rules import Rules, Wishes, are_applied, note_applied, settled
from lethe.pipeline.jobs.stream import require_no_lake
from lethe.pipeline.transforms.candidates import StaleRule
from lethe.protocol.lake import IDENTITY, encode_identity
from lethe.protocol.lake_rules import PLACE


class Disk:
    """Files by path."""

    root = "/lake"

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def items(self, path: str) -> list[Item]:
        names = (file.removeprefix(f"{path}/") for file in self.texts if file.startswith(f"{path}/"))
        return [Item(name, f"{path}/{name}", False, 0, 0) for name in sorted(names) if not name.startswith(".")]

    def make_directory(self, path: str) -> None:
        pass

    def rename(self, source: str, target: str) -> None:
        assert target not in self.texts
        self.texts[target] = self.texts.pop(source)

    def remove(self, path: str) -> None:
        del self.texts[path]

    def write_text(self, path: str, text: str) -> None:
        self.texts[path] = text

    def read_text(self, path: str) -> str:
        return self.texts[path]


def test_no_lake_is_the_checkpoint_of_its_stream() -> None:
    """Its lock would be the lake's own, and no batch would ever have its turn."""
    disk = Disk()
    require_no_lake(disk)
    disk.write_text(f"/lake/{IDENTITY}", encode_identity(None))
    with pytest.raises(LakeUnusable, match="--checkpoint /lake is a lake: give a directory of its own"):
        require_no_lake(disk)


def test_what_nobody_has_said() -> None:
    disk = Disk()
    assert settled(disk, Wishes()) == Rules(StaleRule(30, ()), 300_000)
    assert list(disk.texts) == [f"/lake/{PLACE}/00000001.json"]


def test_what_was_said_holds_until_something_else_is() -> None:
    disk = Disk()
    said = settled(disk, Wishes(60, ("billing-*", "a?"), stuck_after_ms=7_000))
    assert said == Rules(StaleRule(60, ("billing-*", "a?")), 7_000)
    assert settled(disk, Wishes()) == said, "a run over the journal alone protects what it was told to protect before"
    assert settled(disk, Wishes(unwritten_days=90)) == Rules(StaleRule(90, ("billing-*", "a?")), 7_000)
    assert settled(disk, Wishes(protected=("x",))) == Rules(StaleRule(90, ("x",)), 7_000)
    assert settled(disk, Wishes(protected=())) == Rules(StaleRule(90, ()), 7_000)
    assert settled(disk, Wishes(stuck_after_ms=0)) == Rules(StaleRule(90, ()), 0)
    assert list(disk.texts) == [f"/lake/{PLACE}/00000005.json"], "only the last one stays"


def test_a_change_that_was_interrupted_has_not_happened() -> None:
    disk = Disk()
    before = settled(disk, Wishes(protected=("x",)))
    disk.write_text(f"/lake/{PLACE}/.00000002.json", "half")
    assert settled(disk, Wishes()) == before
    after = settled(disk, Wishes(protected=("y",)))
    disk.write_text(f"/lake/{PLACE}/00000001.json", "an old one that was not removed")
    assert settled(disk, Wishes()) == after


def test_a_table_that_was_made_by_other_rules_is_told() -> None:
    disk = Disk()
    settled(disk, Wishes())
    assert not are_applied(disk)
    note_applied(disk)
    settled(disk, Wishes())
    assert are_applied(disk), "nothing was changed"
    settled(disk, Wishes(protected=("x",)))
    assert not are_applied(disk)
    note_applied(disk)
    assert are_applied(disk)
    assert list(disk.texts) == [f"/lake/{PLACE}/00000002.json", f"/lake/{PLACE}/00000002.made"]


def test_force_is_remembered_with_its_days() -> None:
    disk = Disk()
    forced = settled(disk, Wishes(0, force=True))
    assert settled(disk, Wishes(protected=("x",))) == Rules(StaleRule(0, ("x",), force=True))
    assert forced.stale.unwritten_days == 0
    with pytest.raises(ValueError, match="too little"):
        settled(disk, Wishes(0.5))
    assert settled(disk, Wishes()).stale.unwritten_days == 0, "what was refused is not remembered"


def test_what_cannot_be_understood_is_not_replaced_by_less() -> None:
    for text in ("{", "[]", '{"unwritten_days": 30}'):
        disk = Disk()
        disk.write_text(f"/lake/{PLACE}/00000001.json", text)
        with pytest.raises(LakeUnusable, match="--protect"):
            settled(disk, Wishes(unwritten_days=10))


def test_options_that_are_not_given_say_nothing() -> None:
    assert wishes(None, None, None, force=False) == Wishes()
    assert wishes(7, ["a*"], 1.5, force=False) == Wishes(7, ("a*",), False, 1500)
    assert wishes(None, [""], None, force=False).protected == ()
    for days, seconds, words in (
        (400_000.0, None, "--unwritten-days 400000 is more"),
        (float("inf"), None, "--unwritten-days inf is more than 36,500 days"),
        (float("nan"), None, "--unwritten-days"),
        (None, 1e300, r"--stuck-after .* is not between 0 and 3,153,600,000 seconds"),
        (0.5, None, "too little"),
        (None, float("inf"), "--stuck-after inf"),
        (None, float("nan"), "--stuck-after nan"),
    ):
        with pytest.raises(ValueError, match=words):
            wishes(days, None, seconds, force=False)
