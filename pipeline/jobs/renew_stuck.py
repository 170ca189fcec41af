"""`stuck_now` of this moment, made without Spark from `waiting_deletions`, which time does not change."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import replace
from typing import Final

import pyarrow.parquet as pq

from lethe.pipeline.io.known_inputs import KnownInputs, write_known
from lethe.pipeline.io.lake_state import LakeState
from lethe.pipeline.io.local_files import LocalFiles, local_path
from lethe.pipeline.io.staging import Staging
from lethe.pipeline.io.table_log import TableLog
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.tables import STUCK_NOW, WAITING_DELETIONS
from lethe.pipeline.transforms.stuck_now import stuck_now

_SPARK_SCHEMA: Final = "org.apache.spark.sql.parquet.row.metadata"
"""Where Spark stores the schema in a Parquet file, with the comments of the columns."""


def renew_stuck_now(
    lake: LakeState[LocalFiles], known: KnownInputs, *, now: datetime.datetime, threshold_ms: int, name: str
) -> int:
    """Make `stuck_now` that of `now` if it differs, and note the moment. Return the number of its rows.

    Inside the lake's lock. `name` is unique among all runs. Raises LakeUnreadable and OSError.
    """
    reader = LakeReader(str(lake.files.local_root))
    stuck = stuck_now(reader.table(WAITING_DELETIONS), now=now, threshold_ms=threshold_ms)
    if not lake.has(STUCK_NOW) or not stuck.equals(reader.table(STUCK_NOW)):
        staging = Staging(lake.files, f"{name}-look")
        place = f"{staging.new}/{STUCK_NOW.name}"
        lake.files.make_directory(place)
        described = stuck.replace_schema_metadata({_SPARK_SCHEMA: STUCK_NOW.schema.json()})
        pq.write_table(described, f"{local_path(place)}/part-00000-{uuid.uuid4()}.zstd.parquet", compression="zstd")
        staging.commit(STUCK_NOW, place, lake.files_of(STUCK_NOW))
        write_known(lake.files, replace(known, as_of=now.isoformat()))
        TableLog(lake.root, STUCK_NOW).vacuum(datetime.datetime.now(datetime.UTC))
    return int(stuck.num_rows)
