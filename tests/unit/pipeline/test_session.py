"""What is said of a JVM that did not come up: its cause, not the last line of a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import cast

import pytest
from pyspark.sql import SparkSession

from lethe.pipeline import session

MASTER = """WARNING: Using incubator modules: jdk.incubator.vector
2026-11-21T23:15:59.315Z WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Exception in thread "main" a.b.SparkException: Master must either be yarn or start with spark, k8s, or local
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
"""
MEMORY = """Invalid maximum heap size: -Xmxlots
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
"""
NESTED = """Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: a#b;1: not found]
\tat a.b.c(D.scala:1)
Caused by: java.net.UnknownHostException: nowhere
\t... 7 more
"""


@pytest.mark.parametrize(
    "text, said",
    [
        (MASTER, "Master must either be yarn or start with spark, k8s, or local"),
        (MEMORY, "Invalid maximum heap size: -Xmxlots"),
        (NESTED, "nowhere"),
        ("anything\nelse\n\n", "else"),
        ("", None),
    ],
)
def test_the_cause_is_found_in_what_it_printed(text: str, said: str | None) -> None:
    assert session.error_cause(text) == said


def test_a_refusal_of_java_is_told_without_where_it_was_called() -> None:
    error = RuntimeError(
        "An error occurred while calling None.JavaSparkContext.\n: org.apache.spark.E: no such master\n\tat x"
    )
    assert session._java_message(error) == "org.apache.spark.E: no such master"
    assert session._java_message(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize("before, within", [("C", "C.UTF-8"), ("POSIX", "C.UTF-8"), ("de_DE.UTF-8", "de_DE.UTF-8")])
def test_java_finds_names_that_are_not_ascii(before: str, within: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", before)
    with session._utf8_locale():
        assert os.environ["LC_ALL"] == within
    assert os.environ["LC_ALL"] == before


CHILD = "import signal; print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)"


def test_only_the_jvm_does_not_hear_that_all_are_to_end() -> None:
    def is_deaf() -> str:
        child = [sys.executable, "-c", CHILD]
        # As PySpark starts the JVM: with something to do between fork and exec.
        done = subprocess.run(child, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=os.getpid)
        return done.stdout.strip()

    before = signal.getsignal(signal.SIGTERM)
    with session._children_ignore_sigterm():
        assert is_deaf() == "True"
    assert is_deaf() == "False"
    assert signal.getsignal(signal.SIGTERM) is before


def test_versions_of_vendors_are_those_of_spark() -> None:
    versions = ("4.3.0", "4.3.0.7.3", "4.3.0-amzn-1", "4.2.0")
    assert [session._release(version) for version in versions] == ["4.3.0"] * 3 + ["4.2.0"]


def test_what_is_for_one_process_is_not_for_a_cluster() -> None:
    local, cluster = (session.settings_of(master, {}, None) for master in ("local[2]", "spark://host:7077"))
    assert {name for name in local if name not in cluster} == {*session._LOCAL, *session._LARGE} - {*session._CLUSTER}
    assert {name for name in cluster if name not in local} == {*session._CLUSTER} - {*session._LOCAL}


def test_a_session_for_little_generates_no_code() -> None:
    code = "spark.sql.codegen.factoryMode"
    for master in ("local[2]", "spark://host:7077"):
        assert session.settings_of(master, {}, session.SMALL_BYTES)[code] == "NO_CODEGEN"
    assert session.settings_of("local[2]", {code: "FALLBACK"}, 0)[code] == "FALLBACK", "what is given wins"
    for master, size in (("local[2]", session.SMALL_BYTES + 1), ("local[2]", None), ("spark://host:7077", None)):
        assert code not in session.settings_of(master, {}, size)


def test_heaps_and_compilers_of_a_cluster_are_its_own() -> None:
    assert session.JAVA_OPTIONS not in session.settings_of("spark://host:7077", {}, 0)


@pytest.mark.parametrize("lake_bytes, partitions", [(0, 8), (100_000_000, 11), (10**12, 2_000)])
def test_shuffles_on_a_cluster_follow_the_size_of_the_days(lake_bytes: int, partitions: int) -> None:
    assert session.SHUFFLE_PARTITIONS not in session.settings_of("yarn", {}), "or it would be a given number"
    assert session.shuffle_partitions(lake_bytes) == partitions


class ConfOf:
    """Settings as Spark has them, of a session or of its start."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._set = dict(given)

    def contains(self, name: str) -> bool:
        return name in self._set

    def set(self, name: str, value: str) -> None:
        self._set[name] = value

    def get(self, name: str) -> str | None:
        return self._set.get(name)


class SessionOf:
    """A session that was started with these settings."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self.conf = ConfOf({})

    @property
    def sparkContext(self) -> SessionOf:  # noqa: N802 -- PySpark's name
        return self

    def getConf(self) -> ConfOf:  # noqa: N802 -- PySpark's name
        return ConfOf(self._given)


@pytest.mark.parametrize("given, found", [({}, "11"), ({session.SHUFFLE_PARTITIONS: "7"}, None)])
def test_only_a_number_that_nobody_gave_follows_the_size(given: Mapping[str, str], found: str | None) -> None:
    spark = SessionOf(given)
    session.fit_shuffles(cast("SparkSession", spark), lambda: 100_000_000)
    assert spark.conf.get(session.SHUFFLE_PARTITIONS) == found


def test_java_compiles_twice_only_what_a_local_session_reads_much_with() -> None:
    def stops_early(size: int | None) -> bool:
        return "TieredStopAtLevel=1" in session.settings_of("local[2]", {}, size)["spark.driver.extraJavaOptions"]

    sizes = (0, session.SMALL_BYTES, session.MEDIUM_BYTES, session.MEDIUM_BYTES + 1, None)
    assert [stops_early(size) for size in sizes] == [True, True, True, False, False]
