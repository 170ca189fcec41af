"""What a piece of work cost Spark: jobs, tasks, and scans of files, as Spark's own store of its state counts them."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

_SCAN: Final = re.compile(r"\bFileScan\b")
"""In a plan; scans of rows that the program holds have other names."""
_SETTLED_MS: Final = 30_000
"""Spark's listeners hear of a job's end after the call that ran it has returned."""


class Cost(NamedTuple):
    """Of all that ran between two moments."""

    jobs: int
    scans: int
    tasks: int


class CostMeter:
    """Counts from its beginning on, or from the last `taken`. Nothing else may run in the session."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext._jsc.sc()
        self._listeners: Any = context.listenerBus()
        self._jobs: Any = context.statusStore()
        session: Any = spark._jsparkSession
        self._queries: Any = session.sharedState().statusStore()
        self._next_job, self._next_query = 0, 0
        self.taken()

    def taken(self) -> Cost:
        """Return the cost since the last call."""
        self._listeners.waitUntilEmpty(_SETTLED_MS)
        jobs = [job for job in _each(self._jobs.jobsList(None)) if job.jobId() >= self._next_job]
        queries = [one for one in _each(self._queries.executionsList()) if one.executionId() >= self._next_query]
        self._next_job = max((job.jobId() + 1 for job in jobs), default=self._next_job)
        self._next_query = max((one.executionId() + 1 for one in queries), default=self._next_query)
        scans = sum(len(_SCAN.findall(one.physicalPlanDescription())) for one in queries)
        return Cost(len(jobs), scans, sum(job.numTasks() for job in jobs))


def _each(found: Any) -> list[Any]:
    """The elements of a sequence of Scala."""
    return [found.apply(index) for index in range(found.length())]
