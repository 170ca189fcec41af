"""Journals from directories, files and patterns: one row per line, with the file that it stands in.

Directories are looked through for `*.jsonl` and `*.jsonl.gz`, not for what lies in directories below them. A line ends
with a newline and nothing else; the last one of a file may be cut off, and is a line all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.io.files import Files

ENDINGS: Final = (".jsonl", ".jsonl.gz")


class NothingToRead(ValueError):
    """A place that was named does not exist or holds nothing of the kind; says which and what was looked for."""


def journal_files(spark: SparkSession, places: Sequence[str]) -> list[str]:
    """The journal files of these directories, files and patterns, each once, by name. Raises NothingToRead for a place
    that does not exist, and FileTrouble."""
    found: dict[str, None] = {}
    for place in places:
        files = Files(spark, place)
        items = files.matching(place)
        if not items:
            raise NothingToRead(f"no journal at {place}: there is no such file or directory")
        for item in items:
            below = files.items(item.path) if item.is_directory else [item]
            found |= dict.fromkeys(one.path for one in below if not one.is_directory and one.name.endswith(ENDINGS))
    return sorted(found)


def read_lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """(value, file): the lines of these files. `value` may be no UTF-8."""
    if not files:
        return spark.createDataFrame([], "value string, file string")
    # A text source takes {, }, [, ], * and ? in paths for patterns.
    text = spark.read.option("lineSep", "\n").text([escaped(path) for path in files])
    return text.select("value", F.col("_metadata.file_path").alias("file"))


def escaped(path: str) -> str:
    """A path that stands for itself where patterns are understood."""
    return "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in path)
