"""A kept survey of a large cluster with known leftovers, derived from the seed alone."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import shutil
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import orjson

from benchmarks.pipeline.planted import Planted
from lethe.protocol.findings import Place, Reason
from lethe.protocol.journal import time_to_text
from lethe.protocol.survey_records import (
    DIRECTORIES,
    LEFTOVERS,
    MANIFEST,
    METADATA,
    ROW_FILES,
    VERSION,
    ZNODES,
    SurveyFile,
    checksum,
    survey_id,
)

BROKERS: Final = tuple(range(1, 11))
LOG_DIRS: Final = 4
PARTITIONS: Final = 10
REPLICAS: Final = 2
PER_TOPIC: Final = PARTITIONS * REPLICAS
CHUNK: Final = 5_000
"""Topics."""
EVERY: Final = 500
"""One topic of each irregular kind per this number of topics."""
_LEADERS: Final = '"leader_epoch":0,"has_znode":true,"has_state_znode":true'


def write_survey(directory: Path, directories: int, *, taken_at_ms: int, seed: int, processes: int) -> Planted:
    """Write a survey with about so many directories below `directory`; return its exact counts."""
    identity = survey_id(taken_at_ms)
    parts = directory / f".{identity}"
    parts.mkdir(parents=True, exist_ok=True)
    topics = max(EVERY, directories // PER_TOPIC)
    starts = range(0, topics, CHUNK)
    with ProcessPoolExecutor(processes) as pool:
        work = partial(_write_chunk, parts, taken_at_ms, seed, topics)
        planted = sum(pool.map(work, starts), _write_head(parts, taken_at_ms))
    rows, checksums = {}, {}
    for file in ROW_FILES:
        pieces = [parts / f"head-{file.name}", *(parts / f"{start}-{file.name}" for start in starts)]
        with (parts / file.name).open("wb") as whole:
            for piece in pieces:
                with piece.open("rb") as part:
                    shutil.copyfileobj(part, whole, 1 << 20)
                piece.unlink()
        with (parts / file.name).open("rb") as lines:
            checksums[file.name] = sum(checksum(line.rstrip(b"\n")) for line in lines)
    rows[ZNODES.name] = planted.znodes
    rows[METADATA.name] = planted.cached + len(BROKERS)
    rows[DIRECTORIES.name] = planted.directories + len(BROKERS) * LOG_DIRS
    rows[LEFTOVERS.name] = planted.leftovers.total()
    (parts / MANIFEST.name).write_bytes(orjson.dumps(_manifest(identity, taken_at_ms, rows, checksums)))
    planted.size_bytes += sum((parts / file.name).stat().st_size for file in ROW_FILES)
    parts.rename(directory / identity)
    return planted


def _manifest(identity: str, taken_at_ms: int, rows: dict[str, int], checksums: dict[str, int]) -> dict[str, object]:
    taken = {"version": VERSION, "survey_id": identity, "taken_at": time_to_text(taken_at_ms), "took_ms": 60_000}
    seen = {"cluster_id": "synthetic", "complete": True, "in_motion": [], "problems": []}
    return {**taken, **seen, "rows": rows, "checksums": checksums}


def _template(file: SurveyFile, taken_at_ms: int) -> dict[str, object]:
    empty: dict[str, object] = dict.fromkeys(file.column_names)
    return {**empty, "survey_id": survey_id(taken_at_ms), "taken_at": time_to_text(taken_at_ms)}


def _write_head(parts: Path, taken_at_ms: int) -> Planted:
    """Write the rows that a survey has once: brokers and their log directories."""
    znodes, metadata, disks = (_template(file, taken_at_ms) for file in (ZNODES, METADATA, DIRECTORIES))
    with (
        (parts / f"head-{ZNODES.name}").open("wb") as znode_rows,
        (parts / f"head-{METADATA.name}").open("wb") as metadata_rows,
        (parts / f"head-{DIRECTORIES.name}").open("wb") as disk_rows,
    ):
        (parts / f"head-{LEFTOVERS.name}").touch()
        for broker in BROKERS:
            registered = {"kind": "broker", "path": f"/brokers/ids/{broker}", "broker": broker, "broker_epoch": 24}
            znode_rows.write(orjson.dumps({**znodes, **registered}) + b"\n")
            told = {"kind": "broker", "broker": broker, "answered": True, "told_log_dirs": True, "controller": 1001}
            metadata_rows.write(orjson.dumps({**metadata, **told}) + b"\n")
            for number in range(LOG_DIRS):
                place = {"broker": broker, "log_dir": _log_dir(broker, number), "source": "local"}
                disk_rows.write(orjson.dumps({**disks, **place, "kind": "log-dir", "has_failed": False}) + b"\n")
    return Planted(znodes=len(BROKERS))


def _log_dir(broker: int, number: int) -> str:
    return f"/data/{broker}/logs-{number}"


def _size(partition: int) -> int:
    return 16_435 + partition


def _write_chunk(parts: Path, taken_at_ms: int, seed: int, topics: int, start: int) -> Planted:
    with contextlib.ExitStack() as stack:
        files = (stack.enter_context((parts / f"{start}-{file.name}").open("w")) for file in ROW_FILES)
        chunk = _Chunk(taken_at_ms, seed, *files)
        for number in range(start, min(start + CHUNK, topics)):
            chunk.topic(number)
    return chunk.planted


class _Chunk:
    """Formats rows as text, because there are many millions of them."""

    def __init__(
        self, taken_at_ms: int, seed: int, znodes: TextIO, metadata: TextIO, disks: TextIO, leftovers: TextIO
    ) -> None:
        self.planted = Planted()
        self._seed = seed
        self._head = f'{{"survey_id":"{survey_id(taken_at_ms)}","taken_at":"{time_to_text(taken_at_ms)}",'
        self._old = time_to_text(taken_at_ms - 90 * 86_400_000)
        self._new = time_to_text(taken_at_ms - 60_000)
        self._znodes, self._metadata, self._disks, self._leftovers = znodes, metadata, disks, leftovers

    def topic(self, number: int) -> None:
        """Add one topic, regular or irregular."""
        sort, name, identity = number % EVERY, f"orders-{number:07d}", self._identity(f"topic {number}")
        other, gone, broker = self._identity(f"earlier topic {number}"), f"{name}-gone", 1 + number % 10
        if sort == 1:
            self._found(Reason.CONFIG_WITHOUT_TOPIC, self._config(gone), gone)
        elif sort == 2:
            self._found(Reason.MARKER_WITHOUT_TOPIC, self._marker(gone), gone)
        elif sort == 3:
            self._cached(broker, gone, other)
            self._found(Reason.CACHED_WITHOUT_TOPIC, gone, gone, broker)
        elif sort == 4:
            self._found(Reason.DIRECTORY_WITHOUT_TOPIC, self._directory(broker, gone, 3, other), gone, broker, 3)
        elif sort == 5:
            broker = 1 + (number + 5) % 10
            self._found(Reason.DIRECTORY_NOT_ASSIGNED, self._directory(broker, name, 0, identity), name, broker, 0)
        elif sort == 6:
            where = self._directory(2, gone, 0, other, kind="deleted", ending=f".{number:032x}-delete")
            self._found(Reason.NOT_RECLAIMED_YET, where, gone, 2, 0)
        elif sort == 7:
            where = self._directory(3, gone, 0, other, kind="stray", ending=f".{number:032x}-stray")
            self._found(Reason.STRAY_DIRECTORY, where, gone, 3, 0)
        elif sort == 8:
            self._found(Reason.MARKED_TOPIC, self._marker(name), name)
        self.planted.unused += sort == 13
        self._whole(number, name, identity, other, sort)

    def _whole(self, number: int, name: str, identity: str, other: str, sort: int) -> None:
        self._znodes.write(
            f'{self._head}"kind":"topic","path":"/brokers/topics/{name}","topic":"{name}","topic_id":"{identity}",'
            f'"has_znode":true,"is_readable":true,"created_at":"{self._old}"}}\n'
        )
        self._config(name)
        self.planted.znodes += 1
        for partition in range(PARTITIONS):
            first, second = (1 + (number + partition + each) % 10 for each in (0, 1))
            self._znodes.write(
                f'{self._head}"kind":"partition","path":"/brokers/topics/{name}/partitions/{partition}",'
                f'"topic":"{name}","topic_id":"{identity}","partition":{partition},"replicas":[{first},{second}],'
                f'"adding":[],"removing":[],"leader":{first},"isr":[{first},{second}],{_LEADERS}}}\n'
            )
            self.planted.znodes += 1
            for broker in (first, second):
                if sort == 9 and partition == 0 and broker == second:
                    self._found(Reason.REPLICA_WITHOUT_DIRECTORY, f"{name}-0", name, broker, 0)
                    continue
                is_old = sort == 10 and partition == 0 and broker == first
                written = self._old if sort == 13 else self._new
                where = self._directory(broker, name, partition, other if is_old else identity, written=written)
                if is_old:
                    self._found(Reason.DIRECTORY_OF_OTHER_INCARNATION, where, name, broker, 0)
        if sort == 11:
            self._found(Reason.IN_NO_CACHE, name, name)
            return
        for broker in BROKERS:
            is_old = sort == 12 and broker == 4
            self._cached(broker, name, other if is_old else identity)
            if is_old:
                self._found(Reason.CACHED_OTHER_INCARNATION, name, name, broker)

    def _found(
        self, reason: Reason, what: str, topic: str, broker: int | None = None, partition: int | None = None
    ) -> None:
        has_bytes = reason.place is Place.DISK and reason is not Reason.REPLICA_WITHOUT_DIRECTORY
        row: dict[str, object] = {"place": reason.place.value, "standing": reason.standing.code, "reason": reason.code}
        row |= {"what": what, "topic": topic, "broker": broker, "partition": partition}
        size = _size(partition or 0) if has_bytes else 0
        self._leftovers.write(self._head + orjson.dumps({**row, "size_bytes": size}).decode()[1:] + "\n")
        self.planted.leftovers[reason.code] += 1

    def _identity(self, of: str) -> str:
        digest = hashlib.blake2b(f"{self._seed}/{of}".encode(), digest_size=16).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def _config(self, name: str) -> str:
        path = f"/config/topics/{name}"
        self._znodes.write(f'{self._head}"kind":"config","path":"{path}","topic":"{name}"}}\n')
        self.planted.znodes += 1
        return path

    def _marker(self, name: str) -> str:
        path = f"/admin/delete_topics/{name}"
        self._znodes.write(
            f'{self._head}"kind":"marker","path":"{path}","topic":"{name}","created_at":"{self._new}"}}\n'
        )
        self.planted.znodes += 1
        return path

    def _cached(self, broker: int, name: str, identity: str) -> None:
        numbers = ",".join(map(str, range(PARTITIONS)))
        self._metadata.write(
            f'{self._head}"kind":"topic","broker":{broker},"topic":"{name}","topic_id":"{identity}",'
            f'"partitions":[{numbers}]}}\n'
        )
        self.planted.cached += 1

    def _directory(
        self,
        broker: int,
        name: str,
        partition: int,
        identity: str,
        *,
        kind: str = "replica",
        ending: str = "",
        written: str | None = None,
    ) -> str:
        log_dir, directory = _log_dir(broker, partition % LOG_DIRS), f"{name}-{partition}{ending}"
        self._disks.write(
            f'{self._head}"broker":{broker},"log_dir":"{log_dir}","source":"local",'
            f'"kind":"{kind}","directory":"{directory}","topic":"{name}","partition":{partition},'
            f'"topic_id":"{identity}","size_bytes":{_size(partition)},"segment_bytes":16384,"files":14,"newest_write":"{self._new}",'
            f'"newest_segment_write":"{written or self._new}"}}\n'
        )
        self.planted.directories += 1
        return f"{log_dir}/{directory}"
