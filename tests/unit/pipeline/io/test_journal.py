"""Which files are a journal's, without Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from lethe.pipeline.io import journal
from lethe.pipeline.io.files import FileStatus
from lethe.pipeline.io.journal import InputNotFound, journal_files


class LocalFileSystem:
    """As `Files`, of a local disk."""

    def __init__(self, *_: object) -> None:
        pass

    def glob(self, place: str) -> list[FileStatus]:
        return [_item(Path(place))] if Path(place).exists() else []

    def expand_directories(self, items: Sequence[FileStatus]) -> list[FileStatus]:
        return [_item(path) for item in items for path in _below(Path(item.path))]


def _below(path: Path) -> list[Path]:
    """As Java lists it: without what it has no name for, and without links to nothing."""
    if not path.is_dir():
        return [path]
    return sorted(one for one in path.iterdir() if one.name[0] != "." and one.name.isprintable() and one.exists())


def _item(path: Path) -> FileStatus:
    return FileStatus(path.name, str(path), path.is_dir(), 0, 0)


def test_a_file_that_spark_would_leave_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FileSystem", LocalFileSystem)
    spark = cast("Any", None)
    (tmp_path / "a.jsonl").write_bytes(b"")
    (tmp_path / "_notes.txt").write_bytes(b"")
    assert journal_files(spark, [str(tmp_path)]) == [str(tmp_path / "a.jsonl")]
    hidden, dotted = tmp_path / "_b.jsonl", tmp_path / ".b.jsonl.gz"
    dotted.write_bytes(b"")
    assert journal_files(spark, [str(tmp_path)]) == [str(tmp_path / "a.jsonl")], "it is being copied, as rsync does"
    hidden.write_bytes(b"")
    for place, name in ((tmp_path, hidden.name), (hidden, hidden.name), (dotted, dotted.name)):
        with pytest.raises(InputNotFound, match=f"{name} at .* would not be read"):
            journal_files(spark, [str(place)])


@pytest.mark.parametrize("name", [b"\xe9t\xe9.jsonl", b"to nothing.jsonl.gz"])
def test_a_file_that_java_does_not_see_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes) -> None:
    monkeypatch.setattr(journal, "FileSystem", LocalFileSystem)
    spark = cast("Any", None)
    (tmp_path / "a.jsonl").write_bytes(b"")
    strange = tmp_path / os.fsdecode(name)
    if name.startswith(b"to"):
        strange.symlink_to(tmp_path / "nothing")
    else:
        strange.write_bytes(b"")
    with pytest.raises(InputNotFound, match="would not be read: Java does not see it") as raised:
        journal_files(spark, [str(tmp_path)])
    assert repr(os.fsencode(strange)) in str(raised.value)
    strange.unlink()
    assert journal_files(spark, [str(tmp_path)]) == [str(tmp_path / "a.jsonl")]
