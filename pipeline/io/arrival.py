"""Rows that executors write have to arrive where this process reads them.

A path such as `file:/lake` names a directory of each host. Unless all hosts mount the same one there, an executor on
another host writes into a directory of its own, without an error, and the driver commits what it sees: nothing. So on a
cluster each write to such a path is counted twice: by the executors, and in the files that this process then sees.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lethe.pipeline.io.files import SHARED_PATHS, FileSystemError
from lethe.pipeline.io.local_files import SCHEME, local_path
from lethe.pipeline.session import is_local
from lethe.protocol.counting import counted

ENDING: Final = ".parquet"


@contextlib.contextmanager
def checked_arrival(frame: DataFrame, path: str) -> Iterator[DataFrame]:
    """Yield the frame that is to be written below `path` in this context. Raises FileSystemError if its rows do not
    arrive there."""
    place = local_path(path) if path.startswith(SCHEME) and not is_local(frame.sparkSession) else None
    if place is None:
        yield frame
        return
    before, written = _rows_below(place), Observation()
    yield frame.observe(written, F.count(F.lit(1)).alias("rows"))
    sent, arrived = int(written.get.get("rows", 0)), _rows_below(place) - before
    if sent != arrived:
        raise FileSystemError(
            f"executors wrote {counted(sent, 'row')} to {path}, and {arrived:,} arrived: {SHARED_PATHS}"
        )


def _rows_below(directory: str) -> int:
    names = (os.path.join(at, name) for at, _, names in os.walk(directory) for name in names if name.endswith(ENDING))
    return sum(pq.read_metadata(name).num_rows for name in names)
