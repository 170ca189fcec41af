"""The rules of gold tables: which topics count as unused, and when a deletion is stuck.

The lake stores them, so that a later run without options uses the same ones. Otherwise a run over the journal alone
would list topics as candidates that an earlier run protected. Each given option replaces its stored value; given
patterns replace the stored ones.

They stand in `_rules/00000001.json`, each change in a file of its own that is complete when it gets its name; the one
with the highest number counts (`protocol.lake_rules`). A note beside it says whether the table of unused topics follows
them, so that the next run repairs the table after a crash between the two.
"""

from __future__ import annotations

from typing import NamedTuple

from lethe.pipeline.io.lake_state import LakeUnusable, ReadableFiles, WritableFiles
from lethe.protocol.lake_rules import PLACE, LakeRules, encode_rules, file_of, made_by, newest_number, rules_of


class RuleChanges(NamedTuple):
    """Changes of the rules; None keeps the stored value."""

    unwritten_days: float | None = None
    protected: tuple[str, ...] | None = None
    force: bool = False
    """Allows the days to be less than one."""
    stuck_after_ms: int | None = None

    def apply_to(self, before: LakeRules) -> LakeRules:
        """Return `before` with these changes. Raises ValueError for too few days."""
        days, forced = before.unwritten_days, before.forced
        if self.unwritten_days is not None:
            days, forced = self.unwritten_days, self.force
        protected = before.protected if self.protected is None else self.protected
        after_ms = before.stuck_after_ms if self.stuck_after_ms is None else self.stuck_after_ms
        return LakeRules(days, protected, forced, after_ms)


def store_changes(files: WritableFiles, rule_changes: RuleChanges) -> LakeRules:
    """Store and return the rules of this lake with these changes. Inside `lake.writer`. Raises LakeUnusable,
    FileSystemError and ValueError."""
    number, before = _read_rules(files)
    rules = rule_changes.apply_to(before)
    if not number or rules != before:
        _write_rules(files, number + 1, rules)
    return rules


def unchanged_rules(files: ReadableFiles, rule_changes: RuleChanges) -> LakeRules | None:
    """Return the stored rules; None if these changes alter them, or if none are stored. Raises as `store_changes`."""
    number, before = _read_rules(files)
    return before if number and rule_changes.apply_to(before) == before else None


def are_applied(files: ReadableFiles) -> bool:
    """Return True if the table of unused topics follows the rules in force."""
    names = _rule_file_names(files)
    return made_by(newest_number(names)) in names


def note_applied(files: WritableFiles) -> None:
    """Note that the table of unused topics follows the rules in force. Inside `lake.writer`."""
    number = newest_number(_rule_file_names(files))
    files.write_text(f"{files.root}/{PLACE}/{made_by(number)}", "")


def _read_rules(files: ReadableFiles) -> tuple[int, LakeRules]:
    """The number of the stored rules, 0 if there are none."""
    number = newest_number(_rule_file_names(files))
    if not number:
        return 0, LakeRules()
    path = f"{files.root}/{PLACE}/{file_of(number)}"
    try:
        return number, rules_of(files.read_text(path))
    except ValueError as error:
        raise LakeUnusable(f"{path}: {error}") from error


def _write_rules(files: WritableFiles, number: int, rules: LakeRules) -> None:
    place, name = f"{files.root}/{PLACE}", file_of(number)
    files.make_directory(place)
    files.write_text(f"{place}/.{name}", encode_rules(rules))
    files.rename(f"{place}/.{name}", f"{place}/{name}")
    for item in files.list_directory(place):
        if item.name < name:
            files.remove(item.path)


def _rule_file_names(files: ReadableFiles) -> list[str]:
    return [item.name for item in files.list_directory(f"{files.root}/{PLACE}")]
