"""The data pipeline on Spark: from the journal and surveys to what was deleted, how long it took, what is left over.

Bronze tables hold rows as they were read, silver tables their meaning, gold tables answers. Everything
between a read and a write is a pure function from data frames to data frames (`transforms`, `quality`), used alike by
the batch job and by the stream. Only `io` reads and writes, and `jobs` sets the order. Only this package uses Spark.
"""

if __name__ != "lethe.pipeline":
    raise ImportError("import lethe.pipeline: under its bare name each of its modules would exist twice")
