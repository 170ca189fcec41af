"""Reads the rules of a lake on a local disk without Spark, for users of its table of unused topics."""

from __future__ import annotations

from pathlib import Path

from lethe.admin.candidates import lake_of
from lethe.protocol.lake_rules import PLACE, LakeRules, file_of, made_by, newest_number, rules_of


def read_rules(path: Path) -> LakeRules | None:
    """Return the rules of the lake at or around `path`; None outside of any lake, or without rules. Blocking. Raises
    OSError, and ValueError where they are malformed or newer than the table."""
    lake = lake_of(path.resolve())
    if lake is None or not (place := lake / PLACE).is_dir():
        return None
    names = {file.name for file in place.iterdir()}
    number = newest_number(names)
    if not number:
        return None
    file = place / file_of(number)
    try:
        rules = rules_of(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    if made_by(number) not in names:
        raise ValueError(
            f"{lake}: its rules (--unwritten-days, --protect) were changed, and the table of unused topics has not yet "
            "been made anew by them: let `lethe pipeline run` or the stream finish, then try again"
        )
    return rules
