"""Why a topic is not gone, as columns: the words of `lethe explain`, as far as journal and surveys tell.

A cause is a struct of rank, broker, sentence and remedy. Sorted, the one that has to go first stands first: what holds
everything, then this topic, then its brokers.
"""

from __future__ import annotations

import enum
import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from protocol.remedies import BRING_BACK
from protocol.shell_words import PLAIN, for_shell


class Cause(enum.Enum):
    """Sentence, after the topic's name, and the command that helps or shows more; in the order of their ranks. In a
    command the topic is quoted for a shell."""

    NO_CONTROLLER = ("waits for a controller: none is active", "start a controller: lethe controller")
    RESUMPTION = ("waits for deletions to be resumed: they are paused", "lethe topics resume-deletions")
    NOT_CHOSEN = ("waits for a controller that deletes it: this one is here for other topics", "lethe explain {topic}")
    READABLE_ZNODE = (
        "waits for its znode /brokers/topics/{topic} to be readable",
        "lethe topics delete --unreadable --topic {topic}",
    )
    REASSIGNMENT = (
        "waits for the reassignment of its partitions to end",
        "lethe partitions reassign --cancel {topic}",
    )
    MARKER_WITHOUT_TOPIC = (
        "has only its deletion marker left: there is no such topic in ZooKeeper",
        "lethe rescue --topic {topic}",
    )
    HALF_DELETED = (
        "is half deleted: its tree in ZooKeeper is incomplete ({detail})",
        "lethe explain {topic}",
    )
    BROKER_TO_RETURN = (
        "waits for broker {broker}, which is not registered in ZooKeeper",
        BRING_BACK,
    )
    LOG_DIRECTORY = (
        "waits for broker {broker}, whose log directory has failed",
        "repair the log directory and restart broker {broker}",
    )
    BROKER_UNREACHABLE = (
        "waits for broker {broker}, which could not be asked when it was last tried",
        "lethe explain {topic}",
    )
    BROKER_ERROR = ("waits for broker {broker}, which answers with an error ({detail})", "lethe explain {topic}")
    ANSWER = ("waits for broker {broker}, which has been asked and has not answered", "lethe explain {topic}")
    TOMBSTONE_ANSWER = (
        "waits for a broker to confirm that its metadata cache has dropped the topic",
        "lethe explain {topic}",
    )
    ZNODES = ("waits for ZooKeeper to let the controller remove its znodes", "lethe explain {topic}")
    HELD = ("is held back ({detail})", "lethe explain {topic}")
    MARKED = ("is marked for deletion and not gone yet", "lethe rescue --topic {topic}")
    IN_PROGRESS = (
        "is being deleted: nothing that could be seen is wrong, the controller has not finished",
        "lethe explain {topic}",
    )

    @property
    def rank(self) -> int:
        return list(Cause).index(self)


_WORDS = ("operand", "option")
TYPE = "struct<rank:int,broker:int,sentence:string,remedy:string>"


def cause(kind: Cause, *, broker: Column | None = None, detail: Column | None = None) -> Column:
    """A cause of the row's `topic`, which its remedy does not name yet: `filled` does."""
    fields = {"topic": F.col("topic")}
    if broker is not None:
        fields["broker"] = broker.cast("string")
    if detail is not None:
        fields["detail"] = F.coalesce(detail, F.lit("not told"))
    for_later = {word: F.lit(f"{{{word}}}") for word in _WORDS}
    sentence, remedy = _filled(kind.value[0], fields), _filled(for_shell(kind.value[1]), fields | for_later)
    return F.struct(
        F.lit(kind.rank).alias("rank"),
        (F.lit(None) if broker is None else broker).cast("int").alias("broker"),
        sentence.alias("sentence"),
        remedy.alias("remedy"),
    ).cast(TYPE)


def no_causes() -> Column:
    return F.array().cast(f"array<{TYPE}>")


def only_if(condition: Column, one: Column) -> Column:
    """An array of the one cause, or of none."""
    return F.when(condition, F.array(one)).otherwise(no_causes())


def filled(remedy: Column) -> Column:
    """A remedy with the words for the row's `topic`. Once for a row: quoting takes a long expression."""
    topic = F.col("topic")
    words = dict(zip(_WORDS, (operand(topic), option("--topic", topic)), strict=True))
    first, second = ((F.lit(f"{{{word}}}"), column) for word, column in words.items())
    return F.when(F.contains(remedy, first[0]), F.replace(remedy, *first)).otherwise(F.replace(remedy, *second))


def operand(name: Column) -> Column:
    """As `protocol.shell_words.operand`."""
    return F.when(name.startswith("-"), F.concat(F.lit("-- "), quoted(name))).otherwise(quoted(name))


def option(option_name: str, value: Column) -> Column:
    """As `protocol.shell_words.option`."""
    between = F.when(value.startswith("-"), F.lit("=")).otherwise(F.lit(" "))
    return F.concat(F.lit(option_name), between, quoted(value))


def quoted(word: Column) -> Column:
    """As `shlex.quote`."""
    inside = F.replace(word, F.lit("'"), F.lit("'\"'\"'"))
    return F.when(word.rlike(rf"\A{PLAIN}\z"), word).otherwise(F.concat(F.lit("'"), inside, F.lit("'")))


def _filled(text: str, fields: dict[str, Column]) -> Column:
    """`text` with its `{names}` replaced by columns."""
    parts = re.split(r"{(\w+)}", text)
    return F.concat(*(fields[part] if at % 2 else F.lit(part) for at, part in enumerate(parts)))
