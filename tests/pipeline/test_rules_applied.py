"""Unused topics are listed by the rules that hold, also where nothing is read but a change of the rules."""

from __future__ import annotations

import datetime
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lethe.pipeline.io.frames import empty
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.io.table_log import TableFile
from lethe.pipeline.jobs.refresh_gold import apply_rule_changes
from lethe.pipeline.jobs.rules import RuleChanges, are_applied
from lethe.pipeline.tables import STALE_TOPIC_CANDIDATES

NOW = datetime.datetime(2026, 1, 9, tzinfo=datetime.UTC)


def test_a_change_of_the_rules_makes_the_table_anew(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))

    def is_made_anew() -> bool:
        """Return whether the table has other files than when it was last asked."""
        files = lake.files_of(STALE_TOPIC_CANDIDATES)
        seen.append(files)
        return files != seen[-2]

    seen: list[tuple[TableFile, ...]] = []
    with lake.writer("one"):
        apply_rule_changes(lake, RuleChanges(), NOW)
        assert not lake.has(STALE_TOPIC_CANDIDATES), "nobody has made it, so it is not made here"
        lake.replace_table(STALE_TOPIC_CANDIDATES, empty(spark, STALE_TOPIC_CANDIDATES.schema).where(F.lit(True)))
        seen.append(lake.files_of(STALE_TOPIC_CANDIDATES))
        apply_rule_changes(lake, RuleChanges(protected=("orders",)), NOW)
        assert (is_made_anew(), are_applied(lake.files)) == (True, True)
        rules = apply_rule_changes(lake, RuleChanges(), NOW)
        assert (rules.protected, is_made_anew()) == (("orders",), False), "nothing has changed"
        lake.add_pending_days([NOW.date()])
        apply_rule_changes(lake, RuleChanges(protected=("bills",)), NOW)
        assert (is_made_anew(), are_applied(lake.files)) == (False, False), "it is made with what is owed"
        lake.remove_pending_days([NOW.date()])
        apply_rule_changes(lake, RuleChanges(), NOW)
        assert (is_made_anew(), are_applied(lake.files)) == (True, True), "the change was not forgotten meanwhile"
