"""Journals from directories, files and patterns: one row per line, with the file that it stands in.

Directories are looked through for `*.jsonl` and `*.jsonl.gz`, not for what lies in directories below them. A line ends
with a newline and nothing else; the last one of a file may be cut off, and is a line all the same.

A compressed file may be damaged, or cut off while it was copied. Spark then ends the whole query with an error that
names it; once it is known to be damaged, it is read as far as it goes.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lethe.pipeline.io.files import Files, Item, escaped, quoted
from lethe.pipeline.io.frames import empty

ENDINGS: Final = (".jsonl", ".jsonl.gz")
_LINES: Final = StructType([StructField("value", StringType()), StructField("file", StringType())])
COMPRESSED: Final = ".gz"
_HIDDEN: Final = ("_", ".")
_NOT_READ: Final = re.compile(r"\[FAILED_READ_FILE\.NO_HINT\][^\n]*? (\w+:/\S+?)\.?\s+SQLSTATE")
_WHY: Final = re.compile(r"Caused by: (java\.(?:io|util\.zip)\.\w+(?:: [^\n]*)?)")
_SLASHES: Final = re.compile(r"^(\w+):/+")


class NothingToRead(ValueError):
    """A place that was named does not exist or holds nothing of the kind; says which and what was looked for."""


class Damage(NamedTuple):
    """A file that cannot be read to its end, and why, in Java's words."""

    file: str
    why: str


def journal_files(spark: SparkSession, places: Sequence[str]) -> list[str]:
    """The journal files of these directories, files and patterns, each once, by name. Raises NothingToRead for a place
    that does not exist or holds other things alone, and for a file that Spark would leave out without a word; and
    FileTrouble. An empty directory is all right: it is a journal that has not begun."""
    found: dict[str, None] = {}
    for place in places:
        files = Files(spark, place)
        items = files.matching(place)
        if not items:
            raise NothingToRead(f"no journal at {place}: there is no such file or directory")
        before = _on_disk(items)
        below = files.opened(items)
        # What came or went meanwhile is none of these.
        if unlisted := sorted((before & _on_disk(items)) - {_local(one) for one in below}):
            raise NothingToRead(
                f"the journal file {os.fsencode(unlisted[0])!r} would not be read: Java does not see it. Its name is "
                "no UTF-8, or LC_ALL is C (set LC_ALL=C.UTF-8), or it is a link to what is not there: name or mend it"
            )
        journals = [one for one in below if not one.is_directory and one.name.endswith(ENDINGS)]
        if hidden := [one.name for one in journals if one.name.startswith(_HIDDEN)]:
            raise NothingToRead(
                f"the journal file {hidden[0]} at {place} would not be read: Spark passes over names that begin with "
                "_ or a dot; give it another name"
            )
        here = [one.path for one in journals]
        if below and not here:
            looked_for = " or ".join(f"*{ending}" for ending in ENDINGS)
            raise NothingToRead(f"no journal at {place}: {below[0].name} and what else is there is not {looked_for}")
        found |= dict.fromkeys(here)
    return sorted(found)


def _on_disk(items: Sequence[Item]) -> set[str]:
    """The paths of the journal files in those directories that are on a local disk, as the system names them."""
    found: set[str] = set()
    for item in items:
        if item.is_directory and (directory := _local(item)).startswith("/"):
            with contextlib.suppress(OSError):  # Hadoop says what is wrong with it
                names = (name for name in os.listdir(directory) if name.endswith(ENDINGS) and name[0] != ".")
                found |= {os.path.join(directory, name) for name in names}
    return found


def _local(item: Item) -> str:
    return item.path.removeprefix("file:")


def read_lines(spark: SparkSession, files: Sequence[str], damaged: Collection[str] = ()) -> DataFrame:
    """(value, file): the lines of these files, of `damaged` ones as far as they go. `value` may be no UTF-8."""
    lines = _text(spark, [path for path in files if path not in damaged], are_damaged=False)
    return lines.unionByName(_text(spark, list(damaged), are_damaged=True)) if damaged else lines


def damage(error: Exception, files: Collection[str]) -> Damage | None:
    """Which of these files is damaged, if that is what an error says that came of reading them."""
    text = str(error)
    found, why = _NOT_READ.search(text), _WHY.search(text)
    if found is None or why is None:
        return None
    by_name = {_plain(quoted(path)): path for path in files if path.endswith(COMPRESSED)}
    named = by_name.get(_plain(found[1]))
    return None if named is None else Damage(named, why[1])


def _text(spark: SparkSession, files: Sequence[str], *, are_damaged: bool) -> DataFrame:
    if not files:
        return empty(spark, _LINES)
    # A text source takes {, }, [, ], * and ? in paths for patterns.
    text = spark.read.options(lineSep="\n", ignoreCorruptFiles=are_damaged).text([escaped(path) for path in files])
    return text.select("value", F.col("_metadata.file_path").alias("file"))


def _plain(uri: str) -> str:
    """`file:/a` and `file:///a` are the same."""
    return _SLASHES.sub(r"\1:/", uri)
