"""The journal's schema as a condition: does a record have a form of its type?

Theory of operation. The condition is built from `protocol.journal_schema`, against which writers are tested, so both
mean the same. It is a condition on columns, not a Python function, because executors of a cluster need not have Python.
Spark describes the types of the data's values in a text like

    OBJECT<answers: OBJECT<NONE: BIGINT>, api: STRING, partitions: BIGINT>

which becomes `, answers: COUNTS, api: STRING, partitions: BIGINT,`; an object of texts becomes TEXTS_BY_KEY. Each form
has one regular expression for that text. The values are checked in the data's own text: no number below its minimum,
readable ranges and times. There a quote before a colon ends a key, because quotes inside of texts are escaped.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from lethe.protocol.journal_forms import Form, Key, KeyKind
from lethe.protocol.journal_schema import SCHEMAS

_COUNTS: Final = r"OBJECT<((\w+|`[^`]*`): BIGINT(, )?)*>"
_TEXTS_BY_KEY: Final = r"OBJECT<((\w+|`[^`]*`): STRING(, )?)+>"
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
_RANGES: Final = r"(\d+(-\d+)?(,\d+(-\d+)?)*)?"
_BY_BROKERS: Final = rf'"{_RANGES}": ?"{_RANGES}"'
_TIME: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)"


def has_valid_form() -> Column:
    """Return whether `subject` and `data` have a form of `type`; never null."""
    shape = F.schema_of_variant(F.try_parse_json("data"))
    inner = F.regexp_replace(F.regexp_extract(shape, "^OBJECT<(.*)>$", 1), _COUNTS, "COUNTS")
    inner = F.regexp_replace(inner, _TEXTS_BY_KEY, "TEXTS_BY_KEY")
    kinds = F.concat(F.lit(", "), inner, F.lit(","))
    verdict = F.lit(False)
    for kind, schema in SCHEMAS.items():
        has_one = reduce(or_, (_matches(form, kinds) for form in schema.forms))
        verdict = F.when(F.col("type") == kind.value, has_one).otherwise(verdict)
    return F.coalesce(verdict, F.lit(False))


def _matches(form: Form, kinds: Column) -> Column:
    values = [pattern for key in form.keys for pattern in _wrong_values(key)]
    conditions = [F.col("subject").rlike(f"(?s)^(?:{form.subject})$"), kinds.rlike(kinds_pattern(form))]
    if values:
        conditions.append(~F.col("data").rlike("|".join(values)))
    return reduce(and_, conditions)


def kinds_pattern(form: Form) -> str:
    """Return a pattern for `, key: KIND, key: KIND,` that requires the keys of the form, each with its kind."""
    return "^" + "".join(_lookahead(key) for key in form.keys)


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
            return [rf"{name}\{{(?!({_BY_BROKERS}(, ?{_BY_BROKERS})*)?\}})"]
        case KeyKind.TIME:
            return [rf'{name}"(?!{_TIME}")']
        case KeyKind.TEXT | KeyKind.TEXT_OR_NULL | KeyKind.BOOLEAN | KeyKind.TEXTS:
            return []
