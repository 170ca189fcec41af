"""Spark's log stays where a message names it, and nowhere else."""

from pathlib import Path

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.spark_log import spark_log
from lethe.pipeline.io.lake import LakeUnusable
from lethe.pipeline.session import SessionUnavailable


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def met(error: BaseException | None, if_not_started: str = "", *, names_it: bool = False) -> Path:
    """The log of a command that meets the error, which has written to it."""
    with spark_log(if_not_started=if_not_started) as log:
        assert log is not None
        log.write_text("WARN")
        if names_it:
            raise Refusal(f"what Spark said is in {log}", Exit.UNREACHABLE)
        if error is not None:
            raise error
    return log


def test_it_goes_where_all_was_well(place: Path) -> None:
    assert met(None).parent == place
    assert not list(place.iterdir())


@pytest.mark.parametrize(
    "error",
    [Refusal("busy", Exit.BUSY), ValueError("no such day"), OSError("no such file"), KeyboardInterrupt()],
    ids=lambda error: type(error).__name__,
)
def test_it_goes_where_the_error_has_nothing_to_do_with_it(error: BaseException, place: Path) -> None:
    with pytest.raises(type(error)) as raised:
        met(error)
    assert raised.value is error
    assert not list(place.iterdir())


def test_a_lake_that_cannot_be_used_is_refused(place: Path) -> None:
    with pytest.raises(Refusal, match="no lake") as raised:
        met(LakeUnusable("no lake"))
    assert raised.value.exit is Exit.USAGE
    assert not list(place.iterdir())


def test_it_stays_where_a_message_names_it(place: Path) -> None:
    with pytest.raises(Refusal, match="what Spark said is in"):
        met(None, names_it=True)
    assert [log.read_text() for log in place.iterdir()] == ["WARN"]


def test_it_stays_where_spark_did_not_start_and_the_remedy_is_added(place: Path) -> None:
    with pytest.raises(Refusal, match=r"its output is in LOG; name a mirror") as raised:
        met(SessionUnavailable("its output is in LOG"), "; name a mirror")
    assert raised.value.exit is Exit.USAGE
    assert len(list(place.iterdir())) == 1


def test_it_is_named_where_something_else_came_out_of_spark(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="DIVIDE_BY_ZERO"):
        met(RuntimeError("[DIVIDE_BY_ZERO]"))
    (log,) = place.iterdir()
    assert f"what Spark said is in {log}" in capsys.readouterr().err


def test_a_full_disk_is_told_in_words(place: Path) -> None:
    with pytest.raises(Refusal, match="is there room"):
        met(RuntimeError("java.io.IOException: No space left on device"))
    assert len(list(place.iterdir())) == 1
