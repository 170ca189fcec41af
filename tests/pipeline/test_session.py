"""A session has the settings that results depend on, and says why it does not come up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import REFLECTION_COMMAND_NAME
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lethe.pipeline import session


def test_results_do_not_depend_on_the_machine(spark: SparkSession) -> None:
    for name, value in session.FIXED.items():
        assert spark.conf.get(name) == value
    assert spark.sql("select cast(timestamp'2026-01-02 03:04:05Z' as string)").collect()[0][0] == "2026-01-02 03:04:05"


def test_settings_of_ones_own_win_over_defaults_only() -> None:
    assert session.settings_of("local[2]", {"spark.driver.memory": "9g"})["spark.driver.memory"] == "9g"
    assert "spark.driver.bindAddress" not in session.settings_of("spark://somewhere:7077", {})
    with pytest.raises(session.FixedSetting, match="timeZone is UTC here"):
        session.settings_of("local[2]", {"spark.sql.session.timeZone": "Europe/Berlin"})


def test_a_number_of_partitions_that_was_given_stays(spark: SparkSession) -> None:
    before = spark.conf.get(session.SHUFFLE_PARTITIONS)
    session.fit_shuffles(spark, lambda: 10**12)
    assert spark.conf.get(session.SHUFFLE_PARTITIONS) == before


def test_a_second_session_in_one_process_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(session.SessionUnavailable, match="already"):
        session.build_session("local[1]", {}, log=tmp_path / "spark.log")


def test_what_a_name_means_is_asked_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    F.col("a")
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    send, sent = client.send_command, []

    def count(command: str, *rest: Any, **more: Any) -> Any:
        sent.append(command)
        return send(command, *rest, **more)

    monkeypatch.setattr(client, "send_command", count)
    F.col("a")
    assert sent
    assert not [command for command in sent if command.startswith(REFLECTION_COMMAND_NAME)]
