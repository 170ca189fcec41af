"""A streaming source for Spark that follows growing, rotated journal files (`pipeline.io.tailing`).

Spark's own text source reads each file once, as it is at the first sight, and would lose lines that are appended later.
Here an offset holds how far each file was read, and a fingerprint of the kept surveys:

    {"files": {"/journal/controller-1-00000001.jsonl": [identity, position, seen]}, "surveys": "a hash"}

A batch is the range between two offsets. Spark stores offsets in its checkpoint before it reads, so an interrupted
batch is repeated with the same byte ranges. Rows are (value: bytes of a line, file, position, lost). For a lost range,
`value` is null and `lost` is its length in bytes.

Python processes of the executors read the ranges. They need this package, and the files under the same names. Files
that end in `.gz` do not grow: `lethe pipeline run` reads those.
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

from lethe.pipeline.io.files import to_uri
from lethe.pipeline.io.tailing import (
    ByteRange,
    JournalTailer,
    LineBlock,
    LostBytes,
    ReadPosition,
    batch_end,
    group_ranges,
    ranges_between,
    read_range,
    survey_fingerprint,
)

NAME: Final = "lethe-journal"
SCHEMA: Final = "value binary, file string, position long, lost long"
MAX_BYTES: Final = 256 * 1024 * 1024
PARTITION_BYTES: Final = 32 * 1024 * 1024
_ARROW: Final = pa.schema(
    [("value", pa.binary()), ("file", pa.string()), ("position", pa.int64()), ("lost", pa.int64())]
)


def source_options(journals: Sequence[str], surveys: Sequence[str], max_bytes: int = MAX_BYTES) -> dict[str, str]:
    """Return the options of the source for places on a local disk; a batch has about `max_bytes`."""
    return {
        "journals": json.dumps(list(journals)),
        "surveys": json.dumps(list(surveys)),
        "max_bytes": str(max_bytes),
    }


def positions_in(offset: Mapping[str, Any]) -> dict[str, ReadPosition]:
    """Return how far an offset of this source has read."""
    return {path: ReadPosition(str(one[0]), int(one[1]), int(one[2])) for path, one in offset["files"].items()}


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
class JournalPartition(InputPartition):
    """The ranges that one task reads."""

    ranges: list[ByteRange]


class JournalReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in a process beside the driver; `read` runs on executors and uses nothing of the object."""

    def __init__(self, journals: Sequence[str], surveys: Sequence[str], max_bytes: int) -> None:
        self._surveys = surveys
        self._max_bytes = max_bytes
        self._follower = JournalTailer(journals)
        self._target: tuple[dict[str, ReadPosition], str] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return _offset({}, "")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._poll()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        now, surveyed = self._target or self._poll()
        max_bytes = None if isinstance(limit, ReadAllAvailable) else self._max_bytes
        return _offset(batch_end(positions_in(start), now, max_bytes), surveyed)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        wanted = ranges_between(positions_in(start), positions_in(end))
        return [JournalPartition(group) for group in group_ranges(wanted, PARTITION_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, JournalPartition)
        for wanted in partition.ranges:
            for found in read_range(wanted):
                yield _record_batch(wanted.path, found)

    def _poll(self) -> tuple[dict[str, ReadPosition], str]:
        return self._follower.poll(), survey_fingerprint(self._surveys)


def _offset(marks: Mapping[str, ReadPosition], surveyed: str) -> dict[str, Any]:
    return {"files": {path: list(marks[path]) for path in sorted(marks)}, "surveys": surveyed}


def _record_batch(path: str, found: LineBlock | LostBytes) -> pa.RecordBatch:
    values: list[bytes | None] = [None]
    positions, lost = [0], [0]
    match found:
        case LineBlock(texts, begins):
            values, positions, lost = list(texts), begins, [0] * len(texts)
        case LostBytes(first, last):
            positions, lost = [first], [last - first]
    columns = [
        pa.array(values, pa.binary()),
        pa.array([to_uri(f"file:{path}")] * len(values), pa.string()),
        pa.array(positions, pa.int64()),
        pa.array(lost, pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
