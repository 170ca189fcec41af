"""Which files are a journal's, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from pipeline.io import journal
from pipeline.io.files import Item
from pipeline.io.journal import NothingToRead, journal_files


class LocalFiles:
    """As `Files`, of a local disk."""

    def __init__(self, *_: object) -> None:
        pass

    def matching(self, place: str) -> list[Item]:
        return [_item(Path(place))] if Path(place).exists() else []

    def opened(self, items: Sequence[Item]) -> list[Item]:
        return [_item(path) for item in items for path in _below(Path(item.path))]


def _below(path: Path) -> list[Path]:
    return sorted(one for one in path.iterdir() if one.name[0] != ".") if path.is_dir() else [path]


def _item(path: Path) -> Item:
    return Item(path.name, str(path), path.is_dir(), 0, 0)


def test_a_file_that_spark_would_leave_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "Files", LocalFiles)
    spark = cast("Any", None)
    (tmp_path / "a.jsonl").write_bytes(b"")
    (tmp_path / "_notes.txt").write_bytes(b"")
    assert journal_files(spark, [str(tmp_path)]) == [str(tmp_path / "a.jsonl")]
    hidden, dotted = tmp_path / "_b.jsonl", tmp_path / ".b.jsonl.gz"
    dotted.write_bytes(b"")
    assert journal_files(spark, [str(tmp_path)]) == [str(tmp_path / "a.jsonl")], "it is being copied, as rsync does"
    hidden.write_bytes(b"")
    for place, name in ((tmp_path, hidden.name), (hidden, hidden.name), (dotted, dotted.name)):
        with pytest.raises(NothingToRead, match=f"{name} at .* would not be read"):
            journal_files(spark, [str(place)])
