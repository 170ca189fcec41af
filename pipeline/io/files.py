"""Files and directories through Hadoop's FileSystem, so that a lake can lie on a local disk as well as on HDFS.

Paths are texts: an absolute local path, or a URI such as `hdfs://namenode/lake`. Renames are what the lake's safety
rests on, so a rename that did not happen raises instead of returning false.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

_TROUBLE: Final = re.compile(
    r"No space left on device|Disk quota exceeded|Read-only file system|Too many open files"
    r"|Permission denied[^\n)]*|(?:DS|NS)QuotaExceededException: [^\n]*"
)
_NOT_OPENED: Final = re.compile(r"FileNotFoundException: ([^\n]+) \((Permission denied|Too many open files)\)")
_QUOTED: Final = re.compile(r'[\x00-\x20%"<>\\^`{|}#?\[\]\x7f]')


class FileTrouble(OSError):
    """The file system refused something: says what, where, and in its own words why."""


def escaped(path: str) -> str:
    """A path that stands for itself where Spark's file sources, or `Files.matching`, understand patterns."""
    return "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in path)


def trouble_in(error: Exception) -> str | None:
    """What the file system refused, in its own words, where that is what an error of Spark comes of."""
    found = _TROUBLE.search(str(error))
    return None if found is None else found[0].strip()


def not_opened(error: Exception) -> str | None:
    """The file of a local disk that may not be opened and why, where that is what an error of Spark comes of. Spark
    reads while it writes, so this is as a rule a file of what is read."""
    found = _NOT_OPENED.search(str(error))
    return None if found is None else f"{found[1]}: {found[2]}"


class Item(NamedTuple):
    """What lies in a directory."""

    name: str
    path: str
    is_directory: bool
    size_bytes: int
    modified_ms: int


def quoted(path: str) -> str:
    """A path with its scheme as Spark's file sources name it in `_metadata.file_path`: as a URI."""
    return _QUOTED.sub(lambda found: f"%{ord(found.group()):02X}", path)


class Files:
    """One file system: that of `root`, to which all paths belong. Every method raises FileTrouble."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public way to Hadoop's FileSystem
        self._path = getattr(java, "org.apache.hadoop.fs.Path")
        configuration: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        self._io = getattr(java, "org.apache.commons.io.IOUtils")
        if not root:
            raise FileTrouble("the path '' names nothing")
        try:
            self._system = self._path(root).getFileSystem(configuration)
            if self._system.getScheme() == "file":
                # Its checksums stand in files of their own, which nobody wants beside every file.
                self._system = self._system.getRaw()
            self._root = str(self._system.makeQualified(self._path(root)).toString()).rstrip("/")
        except (Py4JJavaError, IllegalArgumentException) as error:
            raise FileTrouble(f"{root}: {_words(error)}") from error

    @property
    def root(self) -> str:
        """The root with its scheme: `file:/lake`, `hdfs://namenode/lake`."""
        return self._root

    @property
    def local_root(self) -> Path | None:
        """The root where it is on a local disk."""
        return Path(self._root.removeprefix("file:")) if self._root.startswith("file:") else None

    def exists(self, path: str) -> bool:
        return bool(self._call(path, "look for", lambda at: self._system.exists(at)))

    def items(self, path: str) -> list[Item]:
        """What lies there and is not hidden, by name; nothing where the directory does not exist."""
        if not self.exists(path):
            return []
        found = self._call(path, "list", lambda at: list(self._system.listStatus(at)))
        return sorted(item for item in map(_item, found) if not item.name.startswith("."))

    def matching(self, pattern: str) -> list[Item]:
        """What a path with `*`, `?` and `{a,b}` stands for; nothing where it stands for nothing."""
        found = self._call(pattern, "look for", lambda at: list(self._system.globStatus(at) or ()))
        return sorted(_item(status) for status in found)

    def opened(self, items: Sequence[Item]) -> list[Item]:
        """The files among these, and in the place of each directory what lies in it."""
        return [one for item in items for one in (self.items(item.path) if item.is_directory else [item])]

    def make_directory(self, path: str) -> None:
        """With those above it; there may be one already."""
        self._done(path, "make the directory", self._call(path, "make", lambda at: self._system.mkdirs(at)))

    def rename(self, source: str, target: str) -> None:
        """Nothing may lie at `target`, and its directory must be there."""
        moved = self._call(source, f"rename to {target}", lambda at: self._system.rename(at, self._path(target)))
        self._done(source, f"rename to {target}", moved)

    def remove(self, path: str) -> None:
        """With all that lies in it; nothing need be there."""
        self._call(path, "remove", lambda at: self._system.delete(at, True))

    def write_text(self, path: str, text: str, *, new: bool = False) -> None:
        """`new`: raises FileTrouble where there is such a file already."""

        def write(at: object) -> None:
            stream = self._system.create(at, not new)
            try:
                stream.write(text.encode())
            finally:
                stream.close()

        self._call(path, "write", write)

    def read_text(self, path: str) -> str:
        def read(at: object) -> str:
            stream = self._system.open(at)
            try:
                return str(self._io.toString(stream, "UTF-8"))
            finally:
                stream.close()

        return str(self._call(path, "read", read))

    def _call(self, path: str, what: str, action: Any) -> Any:
        try:
            return action(self._path(path))
        except (Py4JJavaError, IllegalArgumentException) as error:
            raise FileTrouble(f"cannot {what}: {path}: {_words(error)}") from error

    @staticmethod
    def _done(path: str, what: str, done: bool) -> None:
        if not done:
            raise FileTrouble(f"cannot {what}: {path}: the file system refused")


def _item(status: Any) -> Item:
    """Of Hadoop's FileStatus."""
    path = status.getPath()
    is_directory, size_bytes, modified_ms = status.isDirectory(), status.getLen(), status.getModificationTime()
    return Item(str(path.getName()), str(path.toString()), bool(is_directory), int(size_bytes), int(modified_ms))


def _words(error: Py4JJavaError | IllegalArgumentException) -> str:
    """What Java said, without its trace. PySpark has an exception of its own for what is no path, which Hadoop also
    says of a name with a colon in it."""
    if isinstance(error, IllegalArgumentException):
        return f"{str(error).splitlines()[0]} (Hadoop takes no names with a colon)"
    return str(error.java_exception.toString()).splitlines()[0]
