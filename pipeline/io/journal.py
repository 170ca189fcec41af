"""Journals from directories, files and patterns: one row per line, with its file.

A directory is searched for `*.jsonl` and `*.jsonl.gz`, without its subdirectories. Only a newline ends a line. The last
line of a file may be cut off, and is a line too.

A compressed file may be damaged, or truncated by copying. Spark then fails the whole query with an error that names one
such file. Once all of them are known, each is read up to the damage.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lethe.pipeline.io.files import FileStatus, FileSystem, escape_glob, to_uri, unreadable_file
from lethe.pipeline.io.frames import empty

ENDINGS: Final = (".jsonl", ".jsonl.gz")
_LINES: Final = StructType([StructField("value", StringType()), StructField("file", StringType())])
COMPRESSED_ENDING: Final = ".gz"
_HIDDEN: Final = ("_", ".")
_JAVA_CAUSE: Final = re.compile(r"Caused by: (java\.(?:io|util\.zip)\.\w+(?:: [^\n]*)?)")
_JAVA_OF_DAMAGE: Final = ("java.io.", "java.util.zip.")
_SLASHES: Final = re.compile(r"^(\w+):/+")


class InputNotFound(ValueError):
    """A given place does not exist, or has no input of the expected kind; the message says which and what was searched
    for."""


class DamagedFile(NamedTuple):
    """A file that cannot be read to its end, and why, in Java's words."""

    file: str
    why: str


def journal_files(spark: SparkSession, places: Sequence[str]) -> list[str]:
    """Return the journal files of these directories, files and patterns, each once, by name. An empty directory is
    valid: it is a journal that has not begun.

    Raises FileSystemError. Raises InputNotFound for a place that does not exist or has only other files, and for a file
    that Spark would skip silently.
    """
    found: dict[str, None] = {}
    for place in places:
        files = FileSystem(spark, place)
        items = files.glob(place)
        if not items:
            raise InputNotFound(f"no journal at {place}: there is no such file or directory")
        before = _local_journal_paths(items)
        below = files.expand_directories(items)
        # What came or went meanwhile is none of these.
        if unlisted := sorted((before & _local_journal_paths(items)) - {_local_path(one) for one in below}):
            raise InputNotFound(
                f"the journal file {os.fsencode(unlisted[0])!r} would not be read: Java does not see it. Its name is "
                "no UTF-8, or LC_ALL is C (set LC_ALL=C.UTF-8), or it is a link to what is not there: name or mend it"
            )
        journals = [one for one in below if not one.is_directory and one.name.endswith(ENDINGS)]
        if hidden := [one.name for one in journals if one.name.startswith(_HIDDEN)]:
            raise InputNotFound(
                f"the journal file {hidden[0]} at {place} would not be read: Spark passes over names that begin with "
                "_ or a dot; give it another name"
            )
        here = [one.path for one in journals]
        if below and not here:
            looked_for = " or ".join(f"*{ending}" for ending in ENDINGS)
            raise InputNotFound(f"no journal at {place}: {below[0].name} and what else is there is not {looked_for}")
        found |= dict.fromkeys(here)
    return sorted(found)


def _local_journal_paths(items: Sequence[FileStatus]) -> set[str]:
    """Return the journal files in the local directories among these, as the operating system names them."""
    found: set[str] = set()
    for item in items:
        if item.is_directory and (directory := _local_path(item)).startswith("/"):
            with contextlib.suppress(OSError):  # Hadoop says what is wrong with it
                names = (name for name in os.listdir(directory) if name.endswith(ENDINGS) and name[0] != ".")
                found |= {os.path.join(directory, name) for name in names}
    return found


def _local_path(item: FileStatus) -> str:
    return item.path.removeprefix("file:")


def read_lines(spark: SparkSession, files: Sequence[str], damaged: Collection[str] = ()) -> DataFrame:
    """Return (value, file): the lines of these files; of `damaged` files, those before the damage. `value` may be
    invalid UTF-8."""
    lines = _read_text(spark, [path for path in files if path not in damaged], are_damaged=False)
    return lines.unionByName(_read_text(spark, list(damaged), are_damaged=True)) if damaged else lines


def find_damaged_file(error: Exception, files: Collection[str]) -> DamagedFile | None:
    """Return which of these files is damaged, if that caused the error."""
    found, why = unreadable_file(error), _JAVA_CAUSE.search(str(error))
    if found is None or why is None:
        return None
    by_name = {_with_one_slash(to_uri(path)): path for path in files if path.endswith(COMPRESSED_ENDING)}
    named = by_name.get(_with_one_slash(found))
    return None if named is None else DamagedFile(named, why[1])


def find_other_damaged(spark: SparkSession, files: Collection[str]) -> list[DamagedFile]:
    """Return which of the compressed files cannot be read to their ends. Spark reports one and gives up; here each is
    read once, by the JVM of the driver as tasks read it. A file that cannot be opened is none of these."""
    compressed = [path for path in files if path.endswith(COMPRESSED_ENDING)]
    with ThreadPoolExecutor(spark.sparkContext.defaultParallelism) as threads:
        found = list(threads.map(lambda path: _damage(spark, path), compressed))
    return [DamagedFile(path, why) for path, why in zip(compressed, found, strict=True) if why is not None]


def _damage(spark: SparkSession, path: str) -> str | None:
    """Why the file cannot be read to its end, in Java's words."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- PySpark has no other way to a file
    conf: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    file = jvm.org.apache.hadoop.fs.Path(path)
    codec = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(conf).getCodec(file)
    try:
        opened = file.getFileSystem(conf).open(file)
    except Py4JJavaError:
        return None
    try:
        jvm.org.apache.commons.io.IOUtils.consume(codec.createInputStream(opened))
    except Py4JJavaError as error:
        if not error.java_exception.getClass().getName().startswith(_JAVA_OF_DAMAGE):
            raise
        return str(error.java_exception.toString())
    finally:
        opened.close()
    return None


def _read_text(spark: SparkSession, files: Sequence[str], *, are_damaged: bool) -> DataFrame:
    if not files:
        return empty(spark, _LINES)
    # A text source takes {, }, [, ], * and ? in paths for patterns.
    text = spark.read.options(lineSep="\n", ignoreCorruptFiles=are_damaged).text([escape_glob(path) for path in files])
    return text.select("value", F.col("_metadata.file_path").alias("file"))


def _with_one_slash(uri: str) -> str:
    """Return the URI with one slash after its scheme: `file:/a` and `file:///a` are the same."""
    return _SLASHES.sub(r"\1:/", uri)
