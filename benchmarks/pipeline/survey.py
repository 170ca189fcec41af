"""A kept survey of a large cluster with known leftovers, derived from the seed alone."""

from __future__ import annotations

import base64
import hashlib
import shutil
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import orjson

from benchmarks.pipeline.planted import Planted
from lethe.protocol.findings import Reason
from lethe.protocol.journal import time_to_text
from lethe.protocol.survey_records import (
    DIRECTORIES,
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


def _write_chunk(parts: Path, taken_at_ms: int, seed: int, topics: int, start: int) -> Planted:
    names = [parts / f"{start}-{file.name}" for file in (ZNODES, METADATA, DIRECTORIES)]
    with names[0].open("w") as znodes, names[1].open("w") as metadata, names[2].open("w") as disks:
        chunk = _Chunk(taken_at_ms, seed, znodes, metadata, disks)
        for number in range(start, min(start + CHUNK, topics)):
            chunk.topic(number)
    return chunk.planted


class _Chunk:
    """Formats rows as text, because there are many millions of them."""

    def __init__(self, taken_at_ms: int, seed: int, znodes: TextIO, metadata: TextIO, disks: TextIO) -> None:
        self.planted = Planted()
        self._seed = seed
        self._head = f'{{"survey_id":"{survey_id(taken_at_ms)}","taken_at":"{time_to_text(taken_at_ms)}",'
        self._old = time_to_text(taken_at_ms - 90 * 86_400_000)
        self._new = time_to_text(taken_at_ms - 60_000)
        self._znodes, self._metadata, self._disks = znodes, metadata, disks

    def topic(self, number: int) -> None:
        """Add one topic, regular or irregular."""
        sort, found = number % EVERY, self.planted.leftovers
        name, identity = f"orders-{number:07d}", self._identity(f"topic {number}")
        other = self._identity(f"earlier topic {number}")
        if sort == 1:
            self._config(f"{name}-gone")
            found[Reason.CONFIG_WITHOUT_TOPIC.code] += 1
        elif sort == 2:
            self._marker(f"{name}-gone")
            found[Reason.MARKER_WITHOUT_TOPIC.code] += 1
        elif sort == 3:
            self._cached(1 + number % 10, f"{name}-gone", other)
            found[Reason.CACHED_WITHOUT_TOPIC.code] += 1
        elif sort == 4:
            self._directory(1 + number % 10, f"{name}-gone", 3, other)
            found[Reason.DIRECTORY_WITHOUT_TOPIC.code] += 1
        elif sort == 5:
            self._directory(1 + (number + 5) % 10, name, 0, identity)
            found[Reason.DIRECTORY_NOT_ASSIGNED.code] += 1
        elif sort == 6:
            self._directory(2, f"{name}-gone", 0, other, kind="deleted", ending=f".{number:032x}-delete")
            found[Reason.NOT_RECLAIMED_YET.code] += 1
        elif sort == 7:
            self._directory(3, f"{name}-gone", 0, other, kind="stray", ending=f".{number:032x}-stray")
            found[Reason.STRAY_DIRECTORY.code] += 1
        elif sort == 8:
            self._marker(name)
            found[Reason.MARKED_TOPIC.code] += 1
        self.planted.unused += sort == 13
        self._whole(number, name, identity, other, sort)

    def _whole(self, number: int, name: str, identity: str, other: str, sort: int) -> None:
        found = self.planted.leftovers
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
                    found[Reason.REPLICA_WITHOUT_DIRECTORY.code] += 1
                    continue
                is_old = sort == 10 and partition == 0 and broker == first
                found[Reason.DIRECTORY_OF_OTHER_INCARNATION.code] += is_old
                written = self._old if sort == 13 else self._new
                self._directory(broker, name, partition, other if is_old else identity, written=written)
        if sort == 11:
            found[Reason.IN_NO_CACHE.code] += 1
            return
        for broker in BROKERS:
            is_old = sort == 12 and broker == 4
            found[Reason.CACHED_OTHER_INCARNATION.code] += is_old
            self._cached(broker, name, other if is_old else identity)

    def _identity(self, of: str) -> str:
        digest = hashlib.blake2b(f"{self._seed}/{of}".encode(), digest_size=16).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def _config(self, name: str) -> None:
        self._znodes.write(f'{self._head}"kind":"config","path":"/config/topics/{name}","topic":"{name}"}}\n')
        self.planted.znodes += 1

    def _marker(self, name: str) -> None:
        path = f"/admin/delete_topics/{name}"
        self._znodes.write(
            f'{self._head}"kind":"marker","path":"{path}","topic":"{name}","created_at":"{self._new}"}}\n'
        )
        self.planted.znodes += 1

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
    ) -> None:
        size = 16_435 + partition
        self._disks.write(
            f'{self._head}"broker":{broker},"log_dir":"{_log_dir(broker, partition % LOG_DIRS)}","source":"local",'
            f'"kind":"{kind}","directory":"{name}-{partition}{ending}","topic":"{name}","partition":{partition},'
            f'"topic_id":"{identity}","size_bytes":{size},"segment_bytes":16384,"files":14,"newest_write":"{self._new}",'
            f'"newest_segment_write":"{written or self._new}"}}\n'
        )
        self.planted.directories += 1
