"""The rules of a lake on a local disk, read without Spark, for whoever acts on its table of unused topics."""

from __future__ import annotations

from pathlib import Path

from lethe.admin.candidates import lake_of
from lethe.protocol.lake_rules import PLACE, LakeRules, file_of, made_by, newest_number, rules_of


def read_rules(path: Path) -> LakeRules | None:
    """Those of the lake that this is, or that the table lies in; None for a table outside of any lake, and where nobody
    has ever said any. Blocking. Raises ValueError where they cannot be understood, and where the table has not been
    made by them; OSError."""
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
