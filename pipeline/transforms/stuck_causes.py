"""Why a topic is not deleted yet, as columns: the causes of `protocol.causes` that journal and surveys show.

A cause is a struct of rank, broker, sentence and remedy. They are sorted by what to resolve first: causes of all
topics, of this topic, of its brokers.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from lethe.protocol.causes import ITS_PARTITIONS, CauseKind
from lethe.protocol.shell_words import PLAIN, for_shell

_WORDS = ("operand", "option")
TYPE = "struct<rank:int,broker:int,sentence:string,remedy:string>"


def cause(
    kind: CauseKind, *, broker: Column | None = None, detail: Column | None = None, path: Column | None = None
) -> Column:
    """Return a cause of the row's `topic`; `fill_topic` puts the topic into its remedy."""
    fields = {"topic": F.col("topic"), "partitions": F.lit(ITS_PARTITIONS)}
    fields |= dict.fromkeys(("path", "place", "since"), F.lit(""))
    fields["detail"] = F.lit("")
    if broker is not None:
        fields["broker"] = broker.cast("string")
    if path is not None:
        fields["path"] = F.concat(F.lit(" "), path)
    if detail is not None:
        fields["detail"] = F.coalesce(F.concat(F.lit(" ("), detail, F.lit(")")), F.lit(""))
    for_later = {word: F.lit(f"{{{word}}}") for word in _WORDS}
    sentence, remedy = _filled(kind.value.sentence, fields), _filled(for_shell(kind.value.remedy), fields | for_later)
    return F.struct(
        F.lit(kind.rank).alias("rank"),
        (F.lit(None) if broker is None else broker).cast("int").alias("broker"),
        sentence.alias("sentence"),
        remedy.alias("remedy"),
    ).cast(TYPE)


def no_causes() -> Column:
    return F.array().cast(f"array<{TYPE}>")


def cause_if(condition: Column, one: Column) -> Column:
    """Return an array of the one cause, or an empty one."""
    return F.when(condition, F.array(one)).otherwise(no_causes())


def fill_topic(remedy: Column) -> Column:
    """Return a remedy with the row's `topic`. Use it once per row, because quoting is a long expression."""
    topic = F.col("topic")
    words = dict(zip(_WORDS, (operand(topic), option("--topic", topic)), strict=True))
    first, second = ((F.lit(f"{{{word}}}"), column) for word, column in words.items())
    return F.when(F.contains(remedy, first[0]), F.replace(remedy, *first)).otherwise(F.replace(remedy, *second))


def operand(name: Column) -> Column:
    """Return the name as `protocol.shell_words.operand` does."""
    return F.when(name.startswith("-"), F.concat(F.lit("-- "), shell_quote(name))).otherwise(shell_quote(name))


def option(option_name: str, value: Column) -> Column:
    """Return the option as `protocol.shell_words.option` does."""
    between = F.when(value.startswith("-"), F.lit("=")).otherwise(F.lit(" "))
    return F.concat(F.lit(option_name), between, shell_quote(value))


def shell_quote(word: Column) -> Column:
    """Return the word as `shlex.quote` does."""
    inside = F.replace(word, F.lit("'"), F.lit("'\"'\"'"))
    return F.when(word.rlike(rf"\A{PLAIN}\z"), word).otherwise(F.concat(F.lit("'"), inside, F.lit("'")))


def _filled(text: str, fields: dict[str, Column]) -> Column:
    """Return `text` with its `{names}` replaced by columns."""
    parts = re.split(r"{(\w+)}", text)
    return F.concat(*(fields[part] if at % 2 else F.lit(part) for at, part in enumerate(parts)))
