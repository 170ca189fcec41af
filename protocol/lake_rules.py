"""What the files of a lake's `_rules` say: which topics count as unused, and from when on a deletion is stuck.

`00000002.json` is what holds since the second change; the highest number counts. `00000002.made` beside it is there
when the table of unused topics has been made by it: as long as it is not, that table may name what is protected by now.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

PLACE: Final = "_rules"
"""The directory, below that of the lake."""
_ENDING: Final = ".json"
_MADE: Final = ".made"


class LakeRules(NamedTuple):
    """`forced`: the days may be less than one. `protected` are patterns with `*` and `?`."""

    unwritten_days: float
    protected: tuple[str, ...]
    forced: bool
    stuck_after_ms: int


def encode_rules(rules: LakeRules) -> str:
    """The file's text."""
    return json.dumps({**rules._asdict(), "protected": [*rules.protected]}) + "\n"


def rules_of(text: str) -> LakeRules:
    """Raises ValueError for a text of another form, saying what to do."""
    try:
        said = json.loads(text)
        return LakeRules(
            float(said["unwritten_days"]),
            tuple(map(str, said["protected"])),
            bool(said["forced"]),
            int(said["stuck_after_ms"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"it does not say which topics count as unused and which are protected ({error!r}): remove it, and say it "
            "anew with --unwritten-days and --protect"
        ) from error


def file_of(number: int) -> str:
    """The name of the file that holds since that change."""
    return f"{number:08}{_ENDING}"


def made_by(number: int) -> str:
    """The name of the file that says that the table was made by that one."""
    return f"{number:08}{_MADE}"


def newest_number(names: Iterable[str]) -> int:
    """Of the files of these names, that which holds; 0 where there is none."""
    stems = (name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))
    return max((int(stem) for stem in stems if stem.isdecimal()), default=0)
