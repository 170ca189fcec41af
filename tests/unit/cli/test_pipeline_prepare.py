from __future__ import annotations

from pathlib import Path

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.cli import pipeline_prepare
from lethe.pipeline.class_archive import keep
from lethe.pipeline.jobs import prepare
from lethe.pipeline.jobs.report import OnStage
from lethe.pipeline.session import SPARK_VERSION


@pytest.fixture(autouse=True)
def _of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(pipeline_prepare, "need_java", lambda: None)


def make(directory: Path, _: Path, stage: OnStage) -> Path:
    stage("starting Spark")
    directory.mkdir(mode=0o700, parents=True)
    (directory / "made").write_bytes(b"x" * 1_900_000)
    return keep(directory / "made", SPARK_VERSION, directory)


def test_the_archive_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "make_archive", make)
    told = pipeline_prepare.prepare(quiet=True)
    assert isinstance(told.data, dict)
    assert Path(str(told.data["archive"])).parent == tmp_path / "cache" / "lethe"
    assert told.data["size_bytes"] == 1_900_000
    assert ": 2 MB, in " in told.lines[0]


def test_an_archive_that_others_may_write_to_is_not_said_to_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def make_for_all(directory: Path, log: Path, stage: OnStage) -> Path:
        archive = make(directory, log, stage)
        directory.chmod(0o777)
        return archive

    monkeypatch.setattr(prepare, "make_archive", make_for_all)
    with pytest.raises(Refusal, match=r"is made, and is not used: .*chmod go-w") as refusal:
        pipeline_prepare.prepare(quiet=True)
    assert refusal.value.exit is Exit.USAGE


def test_java_that_makes_no_archive_has_its_log_named(monkeypatch: pytest.MonkeyPatch) -> None:
    logs: list[Path] = []

    def fail(_: Path, log: Path, __: OnStage) -> Path:
        logs.append(log)
        log.write_text("Java says why")
        raise prepare.NotMade(f"Java ended without an archive; what it said is in {log}")

    monkeypatch.setattr(prepare, "make_archive", fail)
    with pytest.raises(Refusal, match="what it said is in") as refusal:
        pipeline_prepare.prepare(quiet=True)
    assert refusal.value.exit is Exit.NO
    assert logs[0].read_text() == "Java says why", "and it is still there"
    logs[0].unlink()


def test_under_spark_submit_there_is_no_java_to_prepare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(Refusal, match="run lethe pipeline prepare without it"):
        pipeline_prepare.prepare(quiet=True)
