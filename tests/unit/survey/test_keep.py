"""Keeping a survey: it is there whole or not at all, and what goes wrong is said in words."""

from __future__ import annotations

import errno
import io
import os
import re
import zlib
from pathlib import Path
from typing import BinaryIO

import orjson
import pytest

from lethe.protocol.survey_records import DIRECTORIES, MANIFEST, ROW_FILES
from lethe.survey.keep import SaveFailed, require_writable, save_survey
from lethe.survey.records import manifest, rows_of
from lethe.survey.views import Survey, ZooKeeperTree
from tests.fakes.rights import open_directory, unprivileged
from tests.unit.survey.test_records import SEEN


def test_what_is_kept_is_what_was_seen(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "surveys"
    target = save_survey(SEEN, out)
    assert target == out / "20260102T030405.678Z"
    assert [path.name for path in out.iterdir()] == [target.name]
    counts, checksums = {}, {}
    for file in ROW_FILES:
        lines = (target / file.name).read_bytes().splitlines()
        assert [orjson.loads(line) for line in lines] == list(rows_of(file, SEEN))
        counts[file.name] = len(lines)
        checksums[file.name] = sum(zlib.crc32(line) for line in lines)
    assert orjson.loads((target / MANIFEST.name).read_bytes()) == manifest(SEEN, counts, checksums)
    assert sorted(path.name for path in target.iterdir()) == sorted([*counts, MANIFEST.name])


def test_surveys_lie_beside_each_other_and_the_same_moment_is_refused(tmp_path: Path) -> None:
    save_survey(SEEN, tmp_path)
    save_survey(Survey(0, 0, ZooKeeperTree()), tmp_path)
    with pytest.raises(SaveFailed, match="that very moment is kept already"):
        save_survey(SEEN, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["19700101T000000.000Z", "20260102T030405.678Z"]


class FullDisk(io.BytesIO):
    """Takes some bytes, then no more."""

    def write(self, data: object) -> int:
        if self.tell() > 500:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)  # type: ignore[arg-type]

    def fileno(self) -> int:
        return os.open("/dev/null", os.O_RDONLY)


def test_looking_at_the_place_leaves_it_as_it_was(tmp_path: Path) -> None:
    """A survey that is never taken, because ZooKeeper is away, leaves no empty directory that looks like one."""
    require_writable(tmp_path / "deep" / "surveys")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "there").mkdir()
    require_writable(tmp_path / "there")
    require_writable(tmp_path / "there" / "below")
    assert [*tmp_path.rglob("*")] == [tmp_path / "there"]


def test_a_place_that_was_made_for_nothing_goes_again(tmp_path: Path) -> None:
    with pytest.raises(SaveFailed, match="No space left on device"):
        save_survey(SEEN, tmp_path / "deep" / "surveys", lambda _: FullDisk())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("full", ["znodes.jsonl", "directories.jsonl"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, full: str) -> None:
    def open_new(path: Path) -> BinaryIO:
        return FullDisk() if path.name == full else path.open("xb")

    with pytest.raises(SaveFailed, match=re.escape(f"cannot be kept in {tmp_path}: No space left on device; nothing")):
        save_survey(SEEN, tmp_path, open_new)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_attempt_leaves_nothing(tmp_path: Path) -> None:
    def open_new(path: Path) -> BinaryIO:
        if path.name == DIRECTORIES.name:
            raise KeyboardInterrupt
        return path.open("xb")

    with pytest.raises(KeyboardInterrupt):
        save_survey(SEEN, tmp_path, open_new)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_place_for_surveys(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveFailed, match="file is no directory"):
        require_writable(tmp_path / "file")
    with pytest.raises(SaveFailed, match="Not a directory"):
        require_writable(tmp_path / "file" / "below")


def test_a_directory_that_takes_nothing_is_found_before_the_survey() -> None:
    with open_directory() as place:
        place.chmod(0o555)
        with unprivileged(), pytest.raises(SaveFailed, match="Permission denied"):
            require_writable(place)


def test_a_place_that_takes_nothing_from_anybody_is_found_before_the_survey() -> None:
    with pytest.raises(SaveFailed, match="cannot be kept in /proc/self"):
        require_writable(Path("/proc/self"))
