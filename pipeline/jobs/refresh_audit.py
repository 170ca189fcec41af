"""The audit of some days: what is found takes the place of what was found there before.

Rules compare a line with the one before it, so the day before is looked at as well; what is found there is left out:
it was found when that day was audited. Lines that come late may mend or break the day after theirs, which is audited
again with it.

A day of which nothing was found keeps its partition of the table, so that it can be told from a day that nobody has
audited.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from pyspark.sql import functions as F

from pipeline import tables
from pipeline.io.lake import Lake
from pipeline.quality.evidence import Evidence
from pipeline.quality.rules import Verdict, audit, gathered, verdict

_DAY: Final = datetime.timedelta(days=1)


def refresh_audit(lake: Lake, days: Collection[datetime.date]) -> Verdict:
    """Makes the violations of these days anew; what they come to. Inside `lake.writer`."""
    had = lake.days(tables.CONTROLLER_EVENTS)
    if not days:
        return Verdict(())
    concerned = sorted({*days, *(day for day in had if day - _DAY in days)})
    evidence = Evidence(
        lake.read(tables.CONTROLLER_EVENTS, _and_before(had, concerned)),
        lake.read(tables.DELETION_SPANS),
        lake.read(tables.AGENT_INVENTORY, _and_before(lake.days(tables.AGENT_INVENTORY), concerned)),
        lake.read(tables.ZNODE_SNAPSHOT, concerned),
    )
    with gathered(evidence) as digest:
        found = audit(evidence, digest).where(F.col("day").isin(concerned))
        lake.replace_partitions(tables.VIOLATIONS, found, concerned, keep_empty=True)
    return verdict(lake.read(tables.VIOLATIONS, concerned))


def _and_before(had: Sequence[datetime.date], days: Sequence[datetime.date]) -> list[datetime.date]:
    """Those of the days that a table has which are asked for, and the last one before each of them."""
    wanted = {*days}
    return sorted({*(day for day in had if day in wanted), *(a for a, b in pairwise(sorted(had)) if b in wanted)})
