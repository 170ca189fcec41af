"""The newest surveys, as values: what is made of one survey reads its rows, and no others."""

from __future__ import annotations

import datetime
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline.literals import day_value
from lethe.protocol.clocks import CLOCKS_DIFFER_MS


class Survey(NamedTuple):
    """A row of SURVEYS."""

    survey_id: str
    day: datetime.date
    taken_us: int
    """Microseconds since 1970."""
    is_complete: bool
    in_motion: list[str] | None
    unread: list[str] | None
    """Where it had problems; None if unknown."""

    @property
    def taken_at(self) -> Column:
        return F.timestamp_micros(F.lit(self.taken_us))

    def rows(self, table: DataFrame) -> DataFrame:
        """Return the survey's rows of a table of surveys."""
        return table.where((F.col("day") == day_value(self.day)) & (F.col("survey_id") == self.survey_id))

    def was_in_motion(self, topic: Column) -> Column:
        return topic.isin(*(self.in_motion or ()))

    def may_have_missed(self, path: str, *, if_unknown: bool) -> bool:
        """Return whether it had a problem with this znode, or with one below."""
        return if_unknown if self.unread is None else any(where.startswith(path) for where in self.unread)


class NewestSurveys(NamedTuple):
    any: Survey | None
    """Whether it saw everything or not; its clock may be ahead by CLOCKS_DIFFER_MS."""
    complete: Survey | None


def newest_surveys(surveys: DataFrame, now: datetime.datetime) -> NewestSurveys:
    """Return the newest of these SURVEYS that are not of the future. `now` has a time zone."""
    taken_us, now_us = F.unix_micros("taken_at"), F.unix_micros(F.lit(now))
    of_problems = F.transform("problems", lambda problem: problem["where"])
    row = F.struct(
        "survey_id",
        "day",
        taken_us.alias("taken_us"),
        F.coalesce("complete", F.lit(False)).alias("is_complete"),
        "in_motion",
        of_problems.alias("unread"),
    )

    def newest(where: Column) -> Column:
        return F.max_by(row, F.when(where, F.struct("taken_at", "survey_id")))

    found = surveys.agg(
        newest(taken_us - now_us <= CLOCKS_DIFFER_MS * 1000).alias("any"),
        newest(F.col("complete") & (taken_us <= now_us)).alias("complete"),
    ).collect()[0]
    return NewestSurveys(*(None if each is None else Survey(*each) for each in found))
