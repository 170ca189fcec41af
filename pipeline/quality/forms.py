"""The journal's schema as a condition: does a record have a form of its type?

Theory of operation. The condition is built from `protocol.journal_schema`, against which writers are tested, so both
mean the same. It is a condition on columns, not a Python function, because executors of a cluster need not have Python.
Spark describes the types of the data's values in a text like

    OBJECT<answers: OBJECT<NONE: BIGINT>, api: STRING, partitions: BIGINT>

which becomes `, answers: COUNTS, api: STRING, partitions: BIGINT,`; an object of texts becomes TEXTS_BY_KEY. Each form
has one regular expression for that text. The values are checked in the data's own text: no number below its minimum,
readable ranges and times. There a quote before a colon ends a key, because quotes inside of texts are escaped.

Nearly every record has the keys of its form alone, with values as writers write them. One expression without look-ahead
for the data's own text recognises these, and no JSON is parsed:

    {"phase":"queued","took_ms":0,"partitions":2}    the keys of the form: valid
    {"phase":"queued","took_ms":-1,"partitions":2}   not recognised, so judged by its types: invalid
    the same with a further key or an escape         not recognised, so judged by its types

Lists in these expressions are possessive (`*+`, `++`). Java recurses with each entry of any other list of groups, and a
thousand ranges of partitions overflow its stack, which ends the process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from lethe.pipeline.patterns import PLAIN
from lethe.protocol.journal_forms import Form, Key, KeyKind
from lethe.protocol.journal_schema import SCHEMAS

_COUNTS: Final = r"OBJECT<((\w+|`[^`]*`): BIGINT(, )?)*+>"
_TEXTS_BY_KEY: Final = r"OBJECT<((\w+|`[^`]*`): STRING(, )?)++>"
_WHOLE: Final = r"(BIGINT|DECIMAL\(\d+,0\))"
_KINDS: Final = {
    KeyKind.TEXT: "STRING",
    KeyKind.TEXT_OR_NULL: "(STRING|VOID)",
    KeyKind.COUNT: _WHOLE,
    KeyKind.ID: _WHOLE,
    KeyKind.NUMBER: r"(BIGINT|DOUBLE|FLOAT|DECIMAL\(\d+,\d+\))",
    KeyKind.BOOLEAN: "BOOLEAN",
    KeyKind.RANGES: "STRING",
    KeyKind.REPLICAS: "(TEXTS_BY_KEY|COUNTS)",
    KeyKind.TIME: "STRING",
    KeyKind.COUNTS: "COUNTS",
    KeyKind.TEXTS: "ARRAY<(STRING|VOID)?>",
}
_RANGES: Final = r"(\d+(-\d+)?(,\d+(-\d+)?)*+)?"
_BY_BROKERS: Final = rf'"{_RANGES}": ?"{_RANGES}"'
_TIME: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)"
_LETTERS: Final = f"{PLAIN}*"
_TEXT: Final = f'"{_LETTERS}"'
_NATURAL: Final = r"(?:0|[1-9]\d{0,17})"
_SOME_RANGES: Final = r'"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*+"'
_SOME_REPLICAS: Final = rf"{_SOME_RANGES}: ?{_SOME_RANGES}"
MAX_USUAL_BYTES: Final = 4_096
"""Longer data is rare, and left to its types."""


def _object_of(entry: str) -> str:
    return rf"\{{{entry}(?:, ?{entry})*+\}}"


_USUAL: Final = {
    KeyKind.TEXT: _TEXT,
    KeyKind.TEXT_OR_NULL: f"(?:{_TEXT}|null)",
    KeyKind.COUNT: _NATURAL,
    KeyKind.ID: f"(?:-1|{_NATURAL})",
    KeyKind.NUMBER: rf"{_NATURAL}(?:\.\d{{1,9}})?",
    KeyKind.BOOLEAN: "(?:true|false)",
    KeyKind.RANGES: _SOME_RANGES,
    KeyKind.REPLICAS: _object_of(_SOME_REPLICAS),
    KeyKind.TIME: r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"',
}
"""Valid values as they are usually written. Objects with free keys are added form by form: such a key must not be taken
for one of the form."""


def has_valid_form() -> Column:
    """Return whether `subject` and `data` have a form of `type`; never null."""
    # `or` would not keep Spark from parsing first what both sides need.
    return F.when(is_usual(), F.lit(True)).otherwise(_has_valid_types())


def is_usual() -> Column:
    """Return whether `data` has the keys of a form of `type` alone, each with a usual value, so that it is a JSON
    object, and `subject` is that of the form; never null."""
    return F.coalesce((F.octet_length("data") <= MAX_USUAL_BYTES) & _by_kind(_is_usual), F.lit(False))


def _by_kind(matches: Callable[[Form], Column]) -> Column:
    """Return whether one of the forms of `type` matches; never null."""
    verdict = F.lit(False)
    for kind, schema in SCHEMAS.items():
        verdict = F.when(F.col("type") == kind.value, reduce(or_, map(matches, schema.forms))).otherwise(verdict)
    return F.coalesce(verdict, F.lit(False))


def _is_usual(form: Form) -> Column:
    """Return whether the data has the keys of the form alone, each with a usual value."""
    return F.col("data").rlike(usual_pattern(form)) & _has_subject(form)


def usual_pattern(form: Form) -> str:
    """Return a pattern for the whole data: keys of the form in any order, all required ones among them, each with a
    usual value. An empty group follows each required key, and is referred to at the end: it must have been reached."""
    names = "|".join(re.escape(key.name) for key in form.keys)
    count = rf'"(?!(?:{names})"){_LETTERS}": ?{_NATURAL}'
    usual = {**_USUAL, KeyKind.COUNTS: _object_of(count)}
    # No value of another kind is usual.
    ends = {key: "" if key.optional else "()" for key in form.keys}
    entry = "|".join(f'"{re.escape(key.name)}": ?{usual.get(key.kind, "(?!)")}{end}' for key, end in ends.items())
    reached = "".join(rf"\{number}" for number in range(1, 1 + sum(map(bool, ends.values()))))
    return rf"\A(?:(?:\A\{{|, ?)(?:{entry}))++\}}{reached}\z"


def _has_subject(form: Form) -> Column:
    return F.col("subject").rlike(f"(?s)^(?:{form.subject})$")


def _has_valid_types() -> Column:
    shape = F.schema_of_variant(F.try_parse_json("data"))
    inner = F.regexp_replace(F.regexp_extract(shape, "(?s)^OBJECT<(.*)>$", 1), _COUNTS, "COUNTS")
    inner = F.regexp_replace(inner, _TEXTS_BY_KEY, "TEXTS_BY_KEY")
    kinds = F.concat(F.lit(", "), inner, F.lit(","))
    return _by_kind(lambda form: _matches(form, kinds))


def _matches(form: Form, kinds: Column) -> Column:
    values = [pattern for key in form.keys for pattern in _wrong_values(key)]
    conditions = [_has_subject(form), kinds.rlike(kinds_pattern(form))]
    if values:
        conditions.append(~F.col("data").rlike("|".join(values)))
    return reduce(and_, conditions)


def kinds_pattern(form: Form) -> str:
    """Return a pattern for `, key: KIND, key: KIND,` that requires the keys of the form, each with its kind."""
    return "(?s)^" + "".join(_lookahead(key) for key in form.keys)


def _lookahead(key: Key) -> str:
    name = f", {re.escape(key.name)}: "
    there = f"(?=.*{name}{_KINDS[key.kind]},)"
    return f"(?:{there}|(?!.*{name}))" if key.optional else there


def _wrong_values(key: Key) -> list[str]:
    """Return patterns of invalid values of the key."""
    name = f'"{re.escape(key.name)}": ?'
    match key.kind:
        case KeyKind.COUNT | KeyKind.NUMBER:
            return [rf"{name}-"]
        case KeyKind.ID:
            return [rf"{name}-(?!1 ?[,}}])"]
        case KeyKind.COUNTS:
            return [rf"{name}\{{[^}}]*: ?-"]
        case KeyKind.RANGES:
            return [rf'{name}"(?!{_RANGES}")']
        case KeyKind.REPLICAS:
            return [rf"{name}\{{(?!({_BY_BROKERS}(, ?{_BY_BROKERS})*+)?\}})"]
        case KeyKind.TIME:
            return [rf'{name}"(?!{_TIME}")']
        case KeyKind.TEXT | KeyKind.TEXT_OR_NULL | KeyKind.BOOLEAN | KeyKind.TEXTS:
            return []
