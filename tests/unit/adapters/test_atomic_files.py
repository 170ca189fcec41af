"""Files are replaced whole, and what is no file is left what it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lethe.adapters.atomic_files import demand_replaceable, replace_file


def test_the_file_is_replaced_whole_and_anybody_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "lethe.prom"
    path.write_text("before")
    replace_file(path, "after\n")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("after\n", 0o644)
    assert [each.name for each in tmp_path.iterdir()] == ["lethe.prom"]


def test_a_link_goes_on_pointing_to_it_and_a_pipe_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "page", tmp_path / "link"
    path.write_text("before")
    link.symlink_to(path)
    replace_file(link, "after")
    assert (path.read_text(), link.is_symlink()) == ("after", True)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        replace_file(pipe, "through")
        assert os.read(reading, 100) == b"through"
    finally:
        os.close(reading)
    assert pipe.is_fifo()


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "lethe.prom").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "lethe.prom", "text")
    assert [each.name for each in tmp_path.iterdir()] == ["lethe.prom"]


def test_whether_it_can_be_replaced_is_seen_without_a_trace(tmp_path: Path) -> None:
    demand_replaceable(tmp_path / "lethe.prom")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "there").write_text("before")
    demand_replaceable(tmp_path / "there")
    demand_replaceable(Path("/dev/null"))
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("there", "before")]
    for place in (tmp_path, tmp_path / "missing" / "lethe.prom", tmp_path / "there" / "lethe.prom"):
        with pytest.raises(OSError, match="directory"):
            demand_replaceable(place)
