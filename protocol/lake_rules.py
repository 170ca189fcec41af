"""Files of a lake's `_rules`: which topics count as unused, and after which time a deletion is stuck.

Each change writes a file with the next number: `00000002.json` holds the rules since the second change. The highest
number is in force. `00000002.made` exists once the table of unused topics is made by these rules. Until then the table
may still name a topic that is now protected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from lethe.protocol.counting import counted

PLACE: Final = "_rules"
"""The directory's name below that of the lake."""
MIN_UNWRITTEN_DAYS: Final = 1
MAX_UNWRITTEN_DAYS: Final = 36_500
_ENDING: Final = ".json"
_MADE: Final = ".made"


@dataclass(frozen=True, slots=True)
class LakeRules:
    """After how many days without a write a topic counts as unused, and after which time a deletion is stuck. Less than
    a day must be `forced`, because a short time makes candidates of topics that are written to at night. The maximum is
    a century. Raises ValueError."""

    unwritten_days: float = 30
    protected: tuple[str, ...] = ()
    """Topics that never count as unused: patterns with `*` and `?`."""
    forced: bool = False
    stuck_after_ms: int = 300_000

    def __post_init__(self) -> None:
        unwritten = f"unwritten for {counted(self.unwritten_days, 'day')}"
        if not 0 <= self.unwritten_days <= MAX_UNWRITTEN_DAYS:
            raise ValueError(f"{unwritten}: give 0 to {MAX_UNWRITTEN_DAYS:,}")
        if self.unwritten_days < MIN_UNWRITTEN_DAYS and not self.forced:
            raise ValueError(
                f"{unwritten} is too little to call a topic unused: give {MIN_UNWRITTEN_DAYS} or more, or force it"
            )


def encode_rules(rules: LakeRules) -> str:
    """Return the file's text."""
    return json.dumps(asdict(rules)) + "\n"


def rules_of(text: str) -> LakeRules:
    """Parse the file's text. Raises ValueError with the remedy if it is malformed."""
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
    """Return the name of the file that holds the rules since this change."""
    return f"{number:08}{_ENDING}"


def made_by(number: int) -> str:
    """Return the name of the file that marks the table as made by these rules."""
    return f"{number:08}{_MADE}"


def newest_number(names: Iterable[str]) -> int:
    """Return the number in force among files of these names; 0 if there is none."""
    stems = (name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))
    return max((int(stem) for stem in stems if stem.isdecimal()), default=0)
