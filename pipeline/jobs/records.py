"""Event records as the lake keeps them: typed and judged once, when they enter it.

    {"program": "..."}        _records.json: which program did that

Another program may take other things from a record, or judge it otherwise. Before it writes to the lake, it does both
anew for all records.
"""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline.io.known_inputs import program
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.io.staged_rows import StagedRows
from lethe.pipeline.jobs.refresh_lasting import refresh_lasting
from lethe.pipeline.jobs.report import OnStage
from lethe.pipeline.quality.rules import flaws, is_flawless
from lethe.pipeline.tables import CONTROLLER_EVENTS
from lethe.pipeline.transforms import bronze_events
from lethe.pipeline.transforms.contract import Ingestion
from lethe.pipeline.transforms.said import with_said

NOTE: Final = "_records.json"
_MADE: Final = ("said", "flaws")


def stage_lines(
    lake: Lake, lines: DataFrame, ingestion: Ingestion, *, where: Column | None = None, watermark: Column | None = None
) -> StagedRows:
    """Stage the lines of (value: text, file) as rows of CONTROLLER_EVENTS that are typed and judged, and as quarantined
    rows. `where` is a condition on staged rows; records before the watermark are quarantined as late; in lines with
    `lost` above 0, so many bytes are.

    Nearly every line is a flawless record as writers write it, which a few expressions recognise. All others are staged
    first, and parsed afterwards: one query for both would be too large for Java to compile.
    """

    def staging(judged_lines: DataFrame) -> DataFrame:
        rows = bronze_events.with_staging_columns(judged_lines, ingestion)
        return rows if where is None else rows.where(where)

    def decide(undecided: DataFrame) -> DataFrame:
        texts = undecided.select(F.col("data").alias("value"), F.col("_source_file").alias("file"))
        parsed = bronze_events.parse(texts)
        late = parsed if watermark is None else bronze_events.quarantine_late(parsed, watermark)
        return staging(judged(late, F.col("reason").isNull()))

    written = with_said(bronze_events.parse_written(lines), F.col("time").isNotNull(), are_usual=True)
    is_sure = F.col("time").isNotNull() & is_flawless()
    if watermark is not None:
        is_sure = is_sure & (F.col("time") >= watermark)
    read = written.withColumns(
        {
            "flaws": F.lit(None).cast(CONTROLLER_EVENTS.schema["flaws"].dataType),
            "reason": F.when(~is_sure, F.lit(bronze_events.UNDECIDED)),
            "detail": F.lit(None).cast("string"),
        }
    )
    if "lost" in lines.columns:
        read = bronze_events.quarantine_lost(read)
    return lake.stage(CONTROLLER_EVENTS, staging(read), decide)


def judged(rows: DataFrame, is_record: Column) -> DataFrame:
    """Return the rows with `said` and `flaws`, which are null where `is_record` is false."""
    return with_said(rows, is_record).withColumn("flaws", F.when(is_record, flaws()))


def judge_anew(lake: Lake, stage: OnStage) -> None:
    """Make `said` and `flaws` anew if another program made them. Inside `lake.writer`. Raises FileSystemError."""
    path = f"{lake.root}/{NOTE}"
    note = json.dumps({"program": program()}) + "\n"
    if lake.files.exists(path) and lake.files.read_text(path) == note:
        return
    if lake.has(CONTROLLER_EVENTS):
        stage("judging all records anew, since another version of Lethe did it")
        rows = lake.read(CONTROLLER_EVENTS)
        lake.replace_table(CONTROLLER_EVENTS, judged(rows.drop(*_MADE), F.lit(True)))
        refresh_lasting(lake, lake.days(CONTROLLER_EVENTS))
    lake.files.remove(path)
    lake.files.write_text(path, note)
