"""The spans of a journal by DuckDB: `python -m benchmarks.pipeline.duck RESULT JOURNAL [JOURNAL ...]`.

It reads the lines, drops repeated and unusable ones, and makes one row a deletion: its phases, its outcome and the
bytes that it freed. It makes no holds, waits, replicas, tenures or audit, which the pipeline makes too. It suits
journals of this benchmark, in which a topic id is deleted once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

THREADS: Final = 2
COLUMNS: Final = (
    *("topic", "topic_id", "marked_at", "started_at", "done_at", "outcome"),
    *("freed_directories", "freed_bytes"),
)
"""Of its result, and of the lake's spans."""
_LINES: Final = """
create temp table lines as
select type, subject, cast(time as timestamptz) as said_at, data
from read_json($journals, format = 'newline_delimited', ignore_errors = true, columns = {
    source: 'VARCHAR', id: 'VARCHAR', type: 'VARCHAR', subject: 'VARCHAR', time: 'VARCHAR', data: 'JSON'})
where id is not null
qualify row_number() over (partition by source, id) = 1
"""
_PHASES: Final = """
create temp table phases as
select substr(subject, 7) as topic, data->>'$.topic_id' as topic_id, data->>'$.phase' as phase, said_at
from lines where type = 'lethe.deletion-phase'
"""
_FREED: Final = """
create temp table freed as
select data->>'$.topic' as topic, data->>'$.topic_id' as topic_id,
    cast(sum(cast(data->>'$.directories' as bigint)) as bigint) as freed_directories,
    cast(sum(cast(data->>'$.size_bytes' as bigint)) as bigint) as freed_bytes
from lines where type = 'lethe.bytes-freed' group by all
"""
_SPANS: Final = """
create temp table spans as
select phases.topic, phases.topic_id,
    min(said_at) filter (phase in ('held', 'queued')) as marked_at,
    min(said_at) filter (phase = 'started') as started_at,
    min(said_at) filter (phase = 'done') as done_at,
    case when bool_or(phase = 'done') then 'done' when bool_or(phase = 'let go') then 'let go'
        when bool_or(phase = 'vanished') then 'vanished' else 'open' end as outcome,
    coalesce(any_value(freed_directories), 0) as freed_directories,
    coalesce(any_value(freed_bytes), 0) as freed_bytes
from phases left join freed using (topic, topic_id) group by all
"""


def main(result: Path, journals: Sequence[Path]) -> None:
    """Write the spans as Parquet."""
    import duckdb

    database = duckdb.connect(config={"threads": THREADS})
    database.execute("set timezone = 'UTC'")
    database.execute(_LINES, {"journals": [f"{journal}/*.jsonl" for journal in journals]})
    for query in (_PHASES, _FREED, _SPANS):
        database.execute(query)
    database.table("spans").write_parquet(str(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(place) for place in sys.argv[2:]])
