from __future__ import annotations

from pathlib import Path

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.cli import pipeline_prepare
from lethe.pipeline import session
from lethe.pipeline.class_archive import MAKES_ARCHIVE, keep
from lethe.pipeline.io.lock import LOCK, acquire_local
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


@pytest.mark.parametrize("place, mode, told", [("a b", 0o700, "at its space, quote"), ("ab", 0o770, "chmod go-w")])
def test_an_archive_that_would_not_be_used_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, mode: int, told: str
) -> None:
    cache = tmp_path / place / "lethe"
    cache.mkdir(parents=True)
    cache.chmod(mode)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    monkeypatch.setattr(session, "build_session", lambda *_, **__: pytest.fail("Spark is not started"))
    with pytest.raises(Refusal, match=told) as refusal:
        pipeline_prepare.prepare(quiet=True)
    assert refusal.value.exit is Exit.NO
    assert not list(cache.iterdir())


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


def test_what_java_had_begun_to_write_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_the_disk(option: str, *_: object) -> int:
        Path(option.removeprefix(MAKES_ARCHIVE)).write_bytes(b"the first part")
        return 1

    monkeypatch.setattr(prepare, "_run_with", fill_the_disk)
    with pytest.raises(Refusal, match="wrote no archive, and ended with 1; what it said is in") as refusal:
        pipeline_prepare.prepare(quiet=True)
    assert refusal.value.exit is Exit.NO
    assert [file.name for file in (tmp_path / "cache" / "lethe").iterdir()] == [LOCK]


def test_what_a_killed_process_left_is_removed_and_what_one_makes_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(option: str, *_: object) -> int:
        Path(option.removeprefix(MAKES_ARCHIVE)).write_bytes(b"whole")
        return 0

    monkeypatch.setattr(prepare, "_run_with", run)
    cache = tmp_path / "cache" / "lethe"
    left, other = cache / "preparing-of-another", cache / "kafka"
    for place in (left, other):
        place.mkdir(parents=True)
        (place / "classes.jsa").write_bytes(b"large")
    cache.chmod(0o700)
    with acquire_local(cache, "prepare", "cache"), pytest.raises(Refusal, match=f"the cache {cache} is in use") as busy:
        pipeline_prepare.prepare(quiet=True)
    assert busy.value.exit is Exit.BUSY
    assert left.exists()
    archive = prepare.make_archive(cache, tmp_path / "log", lambda _: None)
    assert sorted(cache.iterdir()) == sorted([archive, other, cache / LOCK])
