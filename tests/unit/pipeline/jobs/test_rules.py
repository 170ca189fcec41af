"""The lake remembers by which rules its tables were made, each thing by itself."""

from __future__ import annotations

import pytest

from lethe.cli.stale_rule import rule_changes
from lethe.pipeline.io.files import FileStatus
from lethe.pipeline.io.lake import LakeUnusable
from lethe.pipeline.jobs.rules import RuleChanges, are_applied, note_applied, store_changes
from lethe.pipeline.jobs.stream import refuse_lake_as_checkpoint
from lethe.protocol.lake import IDENTITY, encode_identity
from lethe.protocol.lake_rules import PLACE, LakeRules


class Disk:
    """Files by path."""

    root = "/lake"
    local_root = None

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def list_directory(self, path: str) -> list[FileStatus]:
        names = (file.removeprefix(f"{path}/") for file in self.texts if file.startswith(f"{path}/"))
        return [FileStatus(name, f"{path}/{name}", False, 0, 0) for name in sorted(names) if not name.startswith(".")]

    def exists(self, path: str) -> bool:
        return path in self.texts

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
    refuse_lake_as_checkpoint(disk)
    disk.write_text(f"/lake/{IDENTITY}", encode_identity(None))
    with pytest.raises(LakeUnusable, match="--checkpoint /lake is a lake: give a directory of its own"):
        refuse_lake_as_checkpoint(disk)


def test_what_nobody_has_said() -> None:
    disk = Disk()
    assert store_changes(disk, RuleChanges()) == LakeRules(30, ())
    assert list(disk.texts) == [f"/lake/{PLACE}/00000001.json"]


def test_what_was_said_holds_until_something_else_is() -> None:
    disk = Disk()
    said = store_changes(disk, RuleChanges(60, ("billing-*", "a?"), stuck_after_ms=7_000))
    assert said == LakeRules(60, ("billing-*", "a?"), stuck_after_ms=7_000)
    assert store_changes(disk, RuleChanges()) == said, (
        "a run over the journal alone protects what it was told to protect before"
    )
    assert store_changes(disk, RuleChanges(unwritten_days=90)) == LakeRules(
        90, ("billing-*", "a?"), stuck_after_ms=7_000
    )
    assert store_changes(disk, RuleChanges(protected=("x",))) == LakeRules(90, ("x",), stuck_after_ms=7_000)
    assert store_changes(disk, RuleChanges(protected=())) == LakeRules(90, (), stuck_after_ms=7_000)
    assert store_changes(disk, RuleChanges(stuck_after_ms=0)) == LakeRules(90, (), stuck_after_ms=0)
    assert list(disk.texts) == [f"/lake/{PLACE}/00000005.json"], "only the last one stays"


def test_a_change_that_was_interrupted_has_not_happened() -> None:
    disk = Disk()
    before = store_changes(disk, RuleChanges(protected=("x",)))
    disk.write_text(f"/lake/{PLACE}/.00000002.json", "half")
    assert store_changes(disk, RuleChanges()) == before
    after = store_changes(disk, RuleChanges(protected=("y",)))
    disk.write_text(f"/lake/{PLACE}/00000001.json", "an old one that was not removed")
    assert store_changes(disk, RuleChanges()) == after


def test_a_table_that_was_made_by_other_rules_is_told() -> None:
    disk = Disk()
    store_changes(disk, RuleChanges())
    assert not are_applied(disk)
    note_applied(disk)
    store_changes(disk, RuleChanges())
    assert are_applied(disk), "nothing was changed"
    store_changes(disk, RuleChanges(protected=("x",)))
    assert not are_applied(disk)
    note_applied(disk)
    assert are_applied(disk)
    assert list(disk.texts) == [f"/lake/{PLACE}/00000002.json", f"/lake/{PLACE}/00000002.made"]


def test_force_is_remembered_with_its_days() -> None:
    disk = Disk()
    forced = store_changes(disk, RuleChanges(0, force=True))
    assert store_changes(disk, RuleChanges(protected=("x",))) == LakeRules(0, ("x",), forced=True)
    assert forced.unwritten_days == 0
    with pytest.raises(ValueError, match="too little"):
        store_changes(disk, RuleChanges(0.5))
    assert store_changes(disk, RuleChanges()).unwritten_days == 0, "what was refused is not remembered"


def test_what_cannot_be_understood_is_not_replaced_by_less() -> None:
    for text in ("{", "[]", '{"unwritten_days": 30}'):
        disk = Disk()
        disk.write_text(f"/lake/{PLACE}/00000001.json", text)
        with pytest.raises(LakeUnusable, match="--protect"):
            store_changes(disk, RuleChanges(unwritten_days=10))


def test_options_that_are_not_given_say_nothing() -> None:
    assert rule_changes(None, None, None, force=False) == RuleChanges()
    assert rule_changes(7, ["a*"], 1.5, force=False) == RuleChanges(7, ("a*",), False, 1500)
    assert rule_changes(None, [""], None, force=False).protected == ()
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
            rule_changes(days, None, seconds, force=False)
