"""Files and directories through Hadoop's FileSystem, so that a lake can lie on a local disk, on HDFS or on S3.

Paths are texts: an absolute local path, or a URI such as `hdfs://namenode/lake`. A rename that the file system refuses
raises an error. On S3 it copies and deletes: after a crash there may be both files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

_FILE_SYSTEM_PROBLEM: Final = re.compile(
    r"No space left on device|Disk quota exceeded|Read-only file system|Too many open files"
    r"|Permission denied[^\n)]*|Mkdirs failed to create [^\n(]*|(?:DS|NS)QuotaExceededException: [^\n]*"
)
_UNOPENABLE: Final = re.compile(r"FileNotFoundException: ([^\n]+) \((Permission denied|Too many open files)\)")
_UNREADABLE: Final = re.compile(r"\[FAILED_READ_FILE\.NO_HINT\][^\n]*? (\w+:/\S+?)\.?\s+SQLSTATE")
_MISSING: Final = re.compile(r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\][^\n]*? (\w+:/\S+?)\.?\s+File does not exist")
SHARED_PATHS: Final = "on a cluster all hosts need a shared file system there: HDFS, or one mount under the same name"
_CHECKED_AT_CLOSE: Final = "fs.option.create.conditional.overwrite"
"""Hadoop's option of a file that the store refuses if there is one when it arrives: S3A else looks before it writes."""
_ESCAPED_IN_URIS: Final = re.compile(r'[\x00-\x20%"<>\\^`{|}#?\[\]\x7f]')


class FileSystemError(OSError):
    """The file system refused an operation; the message says what, where and why."""


def escape_glob(path: str) -> str:
    """Return the path with glob characters escaped, for Spark's file sources and `FileSystem.glob`."""
    return "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in path)


def file_system_problem(error: Exception) -> str | None:
    """Return the file system's words if it caused this error of Spark, else None."""
    found = _FILE_SYSTEM_PROBLEM.search(str(error))
    return None if found is None else found[0].strip()


def unopenable_file(error: Exception) -> str | None:
    """Return `PATH: REASON` if Spark failed because a local file cannot be opened, else None. Spark reads while it
    writes, so this is usually an input file."""
    found = _UNOPENABLE.search(str(error))
    return None if found is None else f"{found[1]}: {found[2]}"


def missing_file(error: Exception) -> str | None:
    """Return the file that an executor did not find, if Spark failed because of that, else None."""
    found = _MISSING.search(str(error))
    return None if found is None else found[1]


def unreadable_file(error: Exception) -> str | None:
    """Return the file that Spark began to read and could not, if it failed because of that, else None."""
    found = _UNREADABLE.search(str(error))
    return None if found is None else found[1]


def matches(place: str) -> list[str]:
    """Return what this local path names, or matches as a pattern, by name. Raises PermissionError for a directory that
    is to be searched and may not be: Python and Hadoop pass over it, as if nothing were there."""
    if os.path.exists(place):
        return [place]
    for part in reversed((Path(place), *Path(place).parents)):
        needed = os.R_OK | os.X_OK if has_magic(part.name) else os.X_OK
        for each in glob(str(part.parent), include_hidden=True):
            if not os.access(each, needed, effective_ids=True) and os.path.isdir(each):
                remedy = "let this user list and search it, or name places that do not lead there"
                raise PermissionError(f"cannot see what is in {each}, for {place}: Permission denied: {remedy}")
    return sorted(glob(place, include_hidden=True))


def entries(path: str) -> list[str]:
    """Return the file with this local path, or the entries of the directory that are not hidden, by name."""
    if not os.path.isdir(path):
        return [path]
    return [os.path.join(path, name) for name in sorted(os.listdir(path)) if not name.startswith(".")]


def with_port(root: str, service: str) -> str:
    """Return an `hdfs://` root with its port, by Hadoop's name for the service, `host:port`; another root as it is."""
    scheme, _, rest = root.partition("://")
    authority, slash, path = rest.partition("/")
    has_default = scheme == "hdfs" and ":" not in authority and re.fullmatch(r"[^:]+:\d+", service)
    return f"{scheme}://{authority}:{service.rpartition(':')[2]}{slash}{path}" if has_default else root


class FileStatus(NamedTuple):
    """One entry of a directory."""

    name: str
    path: str
    is_directory: bool
    size_bytes: int
    modified_ms: int


def to_uri(path: str) -> str:
    """Return a path with its scheme as a URI, as Spark's file sources have it in `_metadata.file_path`."""
    return _ESCAPED_IN_URIS.sub(lambda found: f"%{ord(found.group()):02X}", path)


class FileSystem:
    """The file system of `root`; all paths belong to it. Every method raises FileSystemError, or another OSError."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public way to Hadoop's FileSystem
        self._java_path = getattr(java, "org.apache.hadoop.fs.Path")
        configuration: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        self._java_io = getattr(java, "org.apache.commons.io.IOUtils")
        if not root:
            raise FileSystemError("the path '' names nothing")
        try:
            self._file_system = self._java_path(root).getFileSystem(configuration)
            if self._file_system.getScheme() == "file":
                # The raw file system writes no checksum file beside every file.
                self._file_system = self._file_system.getRaw()
            self._root = str(self._file_system.makeQualified(self._java_path(root)).toString()).rstrip("/")
            self._root = with_port(self._root, str(self._file_system.getCanonicalServiceName()))
        except (Py4JJavaError, IllegalArgumentException) as error:
            raise FileSystemError(f"{root}: {_java_message(error)}") from error

    @property
    def root(self) -> str:
        """The root with its scheme: `file:/lake`, `hdfs://namenode/lake`."""
        return self._root

    @property
    def local_root(self) -> Path | None:
        """The root as a local path; None if it is not on a local disk."""
        return Path(self._root.removeprefix("file:")) if self._root.startswith("file:") else None

    def exists(self, path: str) -> bool:
        return bool(self._call(path, "look for", lambda at: self._file_system.exists(at)))

    def list_directory(self, path: str) -> list[FileStatus]:
        """Return the entries that are not hidden, by name; none if the directory does not exist."""
        if not self.exists(path):
            return []
        found = self._call(path, "list", lambda at: list(self._file_system.listStatus(at)))
        return sorted(item for item in map(_file_status, found) if not item.name.startswith("."))

    def glob(self, pattern: str) -> list[FileStatus]:
        """Return the entries that a path with `*`, `?` and `{a,b}` matches."""
        place = str(self._call(pattern, "look for", self._file_system.makeQualified).toString())
        if place.startswith("file:"):
            matches(place.removeprefix("file:"))
        found = self._call(pattern, "look for", lambda at: list(self._file_system.globStatus(at) or ()))
        return sorted(_file_status(status) for status in found)

    def expand_directories(self, items: Sequence[FileStatus]) -> list[FileStatus]:
        """Return these files, with each directory replaced by its entries."""
        return [one for item in items for one in (self.list_directory(item.path) if item.is_directory else [item])]

    def make_directory(self, path: str) -> None:
        """Create the directory and its parents, if missing."""
        self._require_success(
            path, "make the directory", self._call(path, "make", lambda at: self._file_system.mkdirs(at))
        )

    def rename(self, source: str, target: str) -> None:
        """Rename `source`. `target` must not exist, and its directory must."""
        moved = self._call(
            source, f"rename to {target}", lambda at: self._file_system.rename(at, self._java_path(target))
        )
        self._require_success(source, f"rename to {target}", moved)

    def remove(self, path: str) -> None:
        """Remove the file, or the directory with its content, if it exists."""
        self._call(path, "remove", lambda at: self._file_system.delete(at, True))

    def write_text(self, path: str, text: str, *, new: bool = False) -> None:
        """Write the file. With `new`, raise FileSystemError if it exists already."""

        def write(at: object) -> None:
            stream = self._create(at) if new else self._file_system.create(at, True)
            try:
                stream.write(text.encode())
            finally:
                stream.close()

        self._call(path, "write", write)

    def _create(self, at: object) -> Any:
        """Return the stream of a file that only one process can create."""
        builder = self._file_system.createFile(at).recursive().overwrite(False)
        # Others ignore the option, and need it not. An S3A that cannot do it has to say so.
        return (builder.must if self._root.startswith("s3") else builder.opt)(_CHECKED_AT_CLOSE, True).build()

    def read_text(self, path: str) -> str:
        def read(at: object) -> str:
            stream = self._file_system.open(at)
            try:
                return str(self._java_io.toString(stream, "UTF-8"))
            finally:
                stream.close()

        return str(self._call(path, "read", read))

    def _call(self, path: str, what: str, action: Any) -> Any:
        try:
            return action(self._java_path(path))
        except (Py4JJavaError, IllegalArgumentException) as error:
            raise FileSystemError(f"cannot {what}: {path}: {_java_message(error)}") from error

    @staticmethod
    def _require_success(path: str, what: str, done: bool) -> None:
        if not done:
            raise FileSystemError(f"cannot {what}: {path}: the file system refused")


def _file_status(status: Any) -> FileStatus:
    """Return the entry for Hadoop's FileStatus."""
    path = status.getPath()
    is_directory, size_bytes, modified_ms = status.isDirectory(), status.getLen(), status.getModificationTime()
    return FileStatus(str(path.getName()), str(path.toString()), bool(is_directory), int(size_bytes), int(modified_ms))


def _java_message(error: Py4JJavaError | IllegalArgumentException) -> str:
    """Return Java's message without the trace. PySpark has its own exception for an invalid path; Hadoop raises it also
    for a name with a colon."""
    if isinstance(error, IllegalArgumentException):
        return f"{str(error).splitlines()[0]} (Hadoop takes no names with a colon)"
    return str(error.java_exception.toString()).splitlines()[0]
