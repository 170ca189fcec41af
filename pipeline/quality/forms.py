"""The journal's schema as a condition on a line: does the fact have a form of its type?

Theory of operation. The condition is built from `protocol.journal_schema`, which writers are tested against, so that
both mean the same. It is a condition on columns, not a Python function, because executors of a cluster need not have
Python. Spark says of what kind the data's values are, in a text like

    OBJECT<answers: OBJECT<NONE: BIGINT>, api: STRING, partitions: BIGINT>

which is brought to `, answers: COUNTS, api: STRING, partitions: BIGINT,`; for each form there is one regular expression
on that. What remains are values: no number below its minimum, ranges and times that can be read. Those are looked for
in the data's own text, in which a quote before a colon ends a key, because quotes inside of texts are escaped.

To parse every line would be dear, and nearly all are plain: data as the lake keeps it, without blanks and with its keys
in order, none of them unknown. One regular expression on the text itself lets those through. It matches less than the
condition above, never more.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from protocol.journal_forms import Form, Key, Kind
from protocol.journal_schema import SCHEMAS

_COUNTS: Final = r"OBJECT<((\w+|`[^`]*`): BIGINT(, )?)*>"
_WHOLE: Final = r"(BIGINT|DECIMAL\(\d+,0\))"
_KINDS: Final = {
    Kind.TEXT: "STRING",
    Kind.TEXT_OR_NULL: "(STRING|VOID)",
    Kind.COUNT: _WHOLE,
    Kind.ID: _WHOLE,
    Kind.NUMBER: r"(BIGINT|DOUBLE|FLOAT|DECIMAL\(\d+,\d+\))",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.RANGES: "STRING",
    Kind.TIME: "STRING",
    Kind.COUNTS: "COUNTS",
    Kind.TEXTS: "ARRAY<(STRING|VOID)?>",
}
_PLAIN_TEXT: Final = r'"[^"\\\x00-\x1f]*+"'
_PLAIN_COUNT: Final = r"(?:0|[1-9]\d{0,17})"
_PLAIN_RANGE: Final = r"\d{1,9}(?:-\d{1,9})?"
_PLAIN: Final = {
    Kind.TEXT: _PLAIN_TEXT,
    Kind.TEXT_OR_NULL: rf"(?:null|{_PLAIN_TEXT})",
    Kind.COUNT: _PLAIN_COUNT,
    Kind.ID: rf"(?:-1|{_PLAIN_COUNT})",
    Kind.NUMBER: r"(?:0|[1-9]\d{0,14})(?:\.\d{1,9})?",
    Kind.BOOLEAN: "(?:true|false)",
    Kind.RANGES: rf'"(?:{_PLAIN_RANGE}(?:,{_PLAIN_RANGE}){{0,7}})?"',
    Kind.TIME: r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z"',
    Kind.COUNTS: rf'\{{(?:"[\w ]+":{_PLAIN_COUNT}(?:,"[\w ]+":{_PLAIN_COUNT}){{0,15}})?\}}',
    Kind.TEXTS: rf"\[(?:{_PLAIN_TEXT}(?:,{_PLAIN_TEXT}){{0,15}})?\]",
}
_RANGES: Final = r"(\d+(-\d+)?(,\d+(-\d+)?)*)?"
_TIME: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)"


def fits() -> Column:
    """True where the line's `subject` and `data` have a form of its `type`; never null."""
    verdict = F.lit(False)
    for kind, schema in SCHEMAS.items():
        has_one = reduce(or_, (_is_plainly(form) for form in schema.forms))
        verdict = F.when(F.col("type") == kind.value, has_one).otherwise(verdict)
    return F.coalesce(verdict, F.lit(False)) | _fits_when_parsed()


def _is_plainly(form: Form) -> Column:
    about = F.col("subject").rlike(f"(?s)^(?:{form.subject})$")
    return about & F.col("data").rlike(plain_pattern(form))


def plain_pattern(form: Form) -> str:
    """Matches data as the lake keeps it, with the form's keys alone, in order, and values without anything unusual."""
    return r"^\{" + "".join(map(_plain, sorted(form.keys))) + r"\}$"


def _plain(key: Key) -> str:
    one = rf'"{re.escape(key.name)}":{_PLAIN[key.kind]}(?:,(?=")|(?=\}}$))'
    return f"(?:{one})?" if key.optional else one


def _fits_when_parsed() -> Column:
    shape = F.schema_of_variant(F.try_parse_json("data"))
    inner = F.regexp_replace(F.regexp_extract(shape, "^OBJECT<(.*)>$", 1), _COUNTS, "COUNTS")
    kinds = F.concat(F.lit(", "), inner, F.lit(","))
    verdict = F.lit(False)
    for kind, schema in SCHEMAS.items():
        has_one = reduce(or_, (_has(form, kinds) for form in schema.forms))
        verdict = F.when(F.col("type") == kind.value, has_one).otherwise(verdict)
    return F.coalesce(verdict, F.lit(False))


def _has(form: Form, kinds: Column) -> Column:
    values = [pattern for key in form.keys for pattern in _wrong_values(key)]
    conditions = [F.col("subject").rlike(f"(?s)^(?:{form.subject})$"), kinds.rlike(kinds_pattern(form))]
    if values:
        conditions.append(~F.col("data").rlike("|".join(values)))
    return reduce(and_, conditions)


def kinds_pattern(form: Form) -> str:
    """Matches `, key: KIND, key: KIND,` where the keys of the form are there, each of its kind."""
    return "^" + "".join(_ahead(key) for key in form.keys)


def _ahead(key: Key) -> str:
    name = f", {re.escape(key.name)}: "
    there = f"(?=.*{name}{_KINDS[key.kind]},)"
    return f"(?:{there}|(?!.*{name}))" if key.optional else there


def _wrong_values(key: Key) -> list[str]:
    """What must not be found in the data."""
    name = f'"{re.escape(key.name)}": ?'
    match key.kind:
        case Kind.COUNT | Kind.NUMBER:
            return [rf"{name}-"]
        case Kind.ID:
            return [rf"{name}-(?!1 ?[,}}])"]
        case Kind.COUNTS:
            return [rf"{name}\{{[^}}]*: ?-"]
        case Kind.RANGES:
            return [rf'{name}"(?!{_RANGES}")']
        case Kind.TIME:
            return [rf'{name}"(?!{_TIME}")']
        case Kind.TEXT | Kind.TEXT_OR_NULL | Kind.BOOLEAN | Kind.TEXTS:
            return []
