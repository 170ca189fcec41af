from __future__ import annotations

from pathlib import Path

import pytest

from lethe.pipeline.class_archive import keep, option_for

SPARK = "4.3.0"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    directory = tmp_path / "lethe"
    directory.mkdir(mode=0o755)
    return made(directory, b"classes")


def made(directory: Path, content: bytes, spark: str = SPARK) -> Path:
    (directory / "made").write_bytes(content)
    return keep(directory / "made", spark, directory)


def test_a_user_without_a_home_has_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", without_home)
    assert option_for(SPARK) is None


def without_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_java_is_told_of_the_archive_of_its_spark(archive: Path) -> None:
    assert option_for(SPARK, archive.parent) == f"-XX:SharedArchiveFile={archive}"
    assert option_for("4.2.0", archive.parent) is None
    archive.unlink()
    assert option_for(SPARK, archive.parent) is None
    assert option_for(SPARK, archive.parent / "nowhere") is None


def test_a_new_archive_takes_the_place_of_the_earlier_one(archive: Path) -> None:
    of_another = made(archive.parent, b"other", spark="4.2.0")
    newer = made(archive.parent, b"more classes")
    assert sorted(archive.parent.iterdir()) == sorted([newer, of_another])
    assert option_for(SPARK, archive.parent) == f"-XX:SharedArchiveFile={newer}"
    assert made(archive.parent, b"MORE CLASSES") == newer, "of the same size"
    assert newer.read_bytes() == b"MORE CLASSES"


def test_java_is_not_told_of_an_archive_that_was_cut_off(archive: Path) -> None:
    archive.write_bytes(b"class")
    assert option_for(SPARK, archive.parent) is None
    archive.unlink()
    archive.mkdir()
    assert option_for(SPARK, archive.parent) is None


@pytest.mark.parametrize("others", [0o020, 0o002])
def test_what_others_may_have_written_is_left_alone(archive: Path, others: int) -> None:
    archive.chmod(0o600 | others)
    assert option_for(SPARK, archive.parent) is None
    archive.chmod(0o600)
    archive.parent.chmod(0o700 | others)
    assert option_for(SPARK, archive.parent) is None, "they may have replaced it"


def test_a_link_counts_as_what_it_leads_to(archive: Path) -> None:
    other = archive.with_name("other")
    archive.rename(other)
    archive.symlink_to(other)
    assert option_for(SPARK, archive.parent) is not None
    other.chmod(0o622)
    assert option_for(SPARK, archive.parent) is None


def test_a_path_that_spark_or_java_would_divide_is_not_given_to_them(tmp_path: Path) -> None:
    for name in ("a b", "a'b", 'a"b', "a\tb", "a\rb", "a\\b", "a:b"):
        directory = tmp_path / name
        directory.mkdir(mode=0o700)
        made(directory, b"classes")
        assert option_for(SPARK, directory) is None, name
