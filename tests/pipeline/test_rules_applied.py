"""Unused topics are listed by the rules that hold, also where nothing is read but a change of the rules."""

from __future__ import annotations

import datetime
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lethe.pipeline.io.frames import empty
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.refresh_gold import apply_rule_changes
from lethe.pipeline.jobs.rules import RuleChanges, are_applied
from lethe.pipeline.tables import STALE_TOPIC_CANDIDATES

NOW = datetime.datetime(2026, 1, 9, tzinfo=datetime.UTC)


def test_a_change_of_the_rules_makes_the_table_anew(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))

    def listed() -> int:
        return len([*(tmp_path / "lake" / STALE_TOPIC_CANDIDATES.path).glob("planted-*.parquet")])

    def plant() -> None:
        """The table is told from one that was made anew by a file that nobody else would write."""
        (tmp_path / "lake" / STALE_TOPIC_CANDIDATES.path / "planted-0.parquet").touch()

    with lake.writer("one"):
        apply_rule_changes(lake, RuleChanges(), NOW)
        assert not lake.has(STALE_TOPIC_CANDIDATES), "nobody has made it, so it is not made here"
        lake.replace_table(STALE_TOPIC_CANDIDATES, empty(spark, STALE_TOPIC_CANDIDATES.schema).where(F.lit(True)))
        plant()
        apply_rule_changes(lake, RuleChanges(protected=("orders",)), NOW)
        assert (listed(), are_applied(lake.files)) == (0, True)
        plant()
        rules = apply_rule_changes(lake, RuleChanges(), NOW)
        assert (rules.protected, listed()) == (("orders",), 1), "nothing has changed"
        lake.add_pending_days([NOW.date()])
        apply_rule_changes(lake, RuleChanges(protected=("bills",)), NOW)
        assert (listed(), are_applied(lake.files)) == (1, False), "it is made with what is owed"
        lake.remove_pending_days([NOW.date()])
        apply_rule_changes(lake, RuleChanges(), NOW)
        assert (listed(), are_applied(lake.files)) == (0, True), "the change was not forgotten meanwhile"
