"""The data pipeline on Spark: from journals and surveys to tables of deletions, their times, and leftovers.

Bronze tables hold rows as they were read, silver tables their meaning, gold tables answers. A row of
`controller_events` is an event record: one valid line of a journal. Everything between a read and a write is a pure
function from data frames to data frames (`transforms`, `quality`); the batch job and the stream share them. Only `io`
reads and writes, and `jobs` sets the order. Only this package uses Spark.
"""

if __name__ != "lethe.pipeline":
    raise ImportError("import lethe.pipeline: under its bare name each of its modules would exist twice")
