"""A streaming source of Spark's that follows growing, rotated journal files (`pipeline.io.following`).

Spark's own source of text files reads every file once, as it is when it is first seen: what is appended later would be
lost. Here an offset says of every file how far it was read, and of the kept surveys whether any came:

    {"files": {"/journal/controller-1-00000001.jsonl": [identity, position, seen]}, "surveys": "a hash"}

A batch is what lies between two offsets. Spark keeps them in its checkpoint before it reads, so that a batch that was
interrupted is repeated with the same ranges of bytes. Rows are (value: bytes of a line, file, position, lost): of a
range that is gone, `value` is null and `lost` its length in bytes.

Ranges are read by Python processes of the executors, which therefore need this package and the files under the same
name. A file that ends in `.gz` does not grow: `lethe pipeline run` reads those.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lethe.pipeline.io.files import quoted
from lethe.pipeline.io.following import Follower, Gone, Lines, Mark, Range, ahead, pieces, ranges, read, survey_state

NAME: Final = "lethe-journal"
SCHEMA: Final = "value binary, file string, position long, lost long"
MAX_BYTES: Final = 256 * 1024 * 1024
PARTITION_BYTES: Final = 32 * 1024 * 1024
_ARROW: Final = pa.schema(
    [("value", pa.binary()), ("file", pa.string()), ("position", pa.int64()), ("lost", pa.int64())]
)


def options(journals: Sequence[str], surveys: Sequence[str], max_bytes: int = MAX_BYTES) -> dict[str, str]:
    """Of the source, for places on a local disk; about `max_bytes` go into a batch."""
    return {
        "journals": json.dumps(list(journals)),
        "surveys": json.dumps(list(surveys)),
        "max_bytes": str(max_bytes),
    }


def marks_of(offset: Mapping[str, Any]) -> dict[str, Mark]:
    """How far an offset of this source has read."""
    return {path: Mark(str(one[0]), int(one[1]), int(one[2])) for path, one in offset["files"].items()}


class JournalSource(DataSource):
    """`spark.dataSource.register(JournalSource)`, then `readStream.format(NAME).options(**options(...))`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's names
        given = self.options
        return JournalReader(
            json.loads(given["journals"]), json.loads(given["surveys"]), int(given.get("max_bytes", MAX_BYTES))
        )


@dataclass
class Piece(InputPartition):
    """What one task reads."""

    ranges: list[Range]


class JournalReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in a process beside the driver; `read` runs on executors and uses nothing of the object."""

    def __init__(self, journals: Sequence[str], surveys: Sequence[str], max_bytes: int) -> None:
        self._surveys = surveys
        self._max_bytes = max_bytes
        self._follower = Follower(journals)
        self._target: tuple[dict[str, Mark], str] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return _offset({}, "")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._look()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        now, surveyed = self._target or self._look()
        max_bytes = None if isinstance(limit, ReadAllAvailable) else self._max_bytes
        return _offset(ahead(marks_of(start), now, max_bytes), surveyed)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        wanted = ranges(marks_of(start), marks_of(end))
        return [Piece(group) for group in pieces(wanted, PARTITION_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        for wanted in partition.ranges:
            for found in read(wanted):
                yield _rows(wanted.path, found)

    def _look(self) -> tuple[dict[str, Mark], str]:
        return self._follower.look(), survey_state(self._surveys)


def _offset(marks: Mapping[str, Mark], surveyed: str) -> dict[str, Any]:
    return {"files": {path: list(marks[path]) for path in sorted(marks)}, "surveys": surveyed}


def _rows(path: str, found: Lines | Gone) -> pa.RecordBatch:
    values: list[bytes | None] = [None]
    positions, lost = [0], [0]
    match found:
        case Lines(texts, begins):
            values, positions, lost = list(texts), begins, [0] * len(texts)
        case Gone(first, last):
            positions, lost = [first], [last - first]
    columns = [
        pa.array(values, pa.binary()),
        pa.array([quoted(f"file:{path}")] * len(values), pa.string()),
        pa.array(positions, pa.int64()),
        pa.array(lost, pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
