"""The backup of `lethe doctor --fix`: one JSON object a line, each on the disk before the next write to ZooKeeper.

    {"lethe_doctor_backup": 1, "cluster_id": "…", "taken_at": 1767322800000}
    {"repair": 1, "kind": "config_without_topic", "what": "/config/topics/gone", "absent": ["/brokers/topics/gone"],
     "before": [{"path": "/config/topics/gone", "data": "eyJ2…", "mzxid": 4711, "ephemeral": false}]}
    {"done": 1, "after": [{"path": "/config/topics/gone", "mzxid": null}]}

Data is base64; null is a znode without data. A repair without its line `done` was interrupted, and may be applied. The
file may hold secrets of the cluster's configuration: only its owner may read it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from lethe.admin.doctor_repairs import Read
from lethe.admin.given_file import read_given
from lethe.protocol.zookeeper.operations import Data

VERSION: Final = 1
_MARK: Final = "lethe_doctor_backup"


class SavedZnode(NamedTuple):
    """A znode before the repair, and the zxid of its last write; None: it did not exist."""

    path: str
    data: bytes | None
    mzxid: int | None
    ephemeral: bool = False

    @property
    def existed(self) -> bool:
        return self.mzxid is not None


@dataclass(frozen=True, slots=True)
class SavedRepair:
    """One repair. `after` has the zxid of the last write of each znode after it (None: gone), by path; None as a whole
    where the repair was interrupted."""

    kind: str
    what: str
    topic: str | None
    before: tuple[SavedZnode, ...]
    absent: tuple[str, ...] = ()
    after: Mapping[str, int | None] | None = None


@dataclass(frozen=True, slots=True)
class Backup:
    """A whole file."""

    cluster_id: str | None
    taken_at_ms: int
    repairs: tuple[SavedRepair, ...]


class BackupUnusable(Exception):
    """The file cannot be written, or is no backup."""


class BackupFile:
    """A backup that is being written. The file is created with the first repair."""

    def __init__(self, path: Path, cluster_id: str | None, taken_at_ms: int) -> None:
        self.path = path
        self._head = {_MARK: VERSION, "cluster_id": cluster_id, "taken_at": taken_at_ms}
        self.repairs = 0

    def demand_new(self) -> None:
        """Raise BackupUnusable where the file exists, or its directory does not."""
        if self.path.exists():
            raise BackupUnusable(f"{self.path} exists: a backup is never overwritten")
        if not os.access(self.path.absolute().parent, os.W_OK):
            raise BackupUnusable(f"{self.path.absolute().parent} is no directory that can be written")

    def begin(self, repair: SavedRepair) -> int:
        """Save what the repair is about to change; return its number."""
        if not self.repairs:
            self._append(self._head, is_first=True)
        self.repairs += 1
        before = [
            {"path": each.path, "data": _text(each.data), "mzxid": each.mzxid, "ephemeral": each.ephemeral}
            for each in repair.before
        ]
        head = {"repair": self.repairs, "kind": repair.kind, "what": repair.what, "topic": repair.topic}
        self._append({**head, "absent": [*repair.absent], "before": before})
        return self.repairs

    def end(self, number: int, after: Mapping[str, int | None]) -> None:
        """Save what the repair has made of these znodes."""
        self._append({"done": number, "after": [{"path": path, "mzxid": mzxid} for path, mzxid in after.items()]})

    def _append(self, line: Mapping[str, object], *, is_first: bool = False) -> None:
        flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if is_first else 0)
        try:
            descriptor = os.open(self.path, flags, 0o600)
            with open(descriptor, "wb") as file:
                file.write(orjson.dumps(line) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BackupUnusable(f"{self.path} cannot be written: {error.strerror or error}") from error


def saved(read: Read, paths: Iterable[str]) -> tuple[SavedZnode, ...]:
    """Return these znodes as they were read."""
    return tuple(_saved(path, read[path]) for path in paths)


def _saved(path: str, data: Data | None) -> SavedZnode:
    if data is None:
        return SavedZnode(path, None, None)
    return SavedZnode(path, data.data, data.stat.mzxid, data.stat.ephemeral_owner != 0)


def read_backup(path: Path) -> Backup:
    """Return the backup. A torn last line, of a process that was killed, is left out. Raises Refusal where the file
    cannot be read, and BackupUnusable."""
    content = read_given("--restore", path)
    try:
        return _parsed([orjson.loads(line) for line in content.split(b"\n")[:-1]])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BackupUnusable(f"{path} is no backup of lethe doctor: {error}") from error


def _parsed(lines: Sequence[Any]) -> Backup:
    head, repairs, after = lines[0], {}, {}
    if head[_MARK] != VERSION:
        raise ValueError(f"its version is {head[_MARK]}, and this release reads {VERSION}")
    for line in lines[1:]:
        if "repair" in line:
            repairs[line["repair"]] = line
        else:
            after[line["done"]] = {each["path"]: each["mzxid"] for each in line["after"]}
    return Backup(
        head["cluster_id"],
        head["taken_at"],
        tuple(
            SavedRepair(
                line["kind"],
                line["what"],
                line["topic"],
                tuple(
                    SavedZnode(each["path"], _bytes(each["data"]), each["mzxid"], each["ephemeral"])
                    for each in line["before"]
                ),
                tuple(line["absent"]),
                after.get(number),
            )
            for number, line in repairs.items()
        ),
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
