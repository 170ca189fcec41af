"""Which files every user of the machine may read or write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lethe.adapters.security.exposure import exposure
from tests.fakes.rights import open_directory


@pytest.fixture
def place() -> Iterator[Path]:
    with open_directory() as place:
        yield place


def secret(place: Path, mode: int) -> Path:
    path = place / "a token"
    path.write_text("0123456789abcdef")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    "mode,acts", [(0o400, None), (0o640, None), (0o660, None), (0o644, "read"), (0o666, "read and write")]
)
def test_the_mode_of_others_counts(place: Path, mode: int, acts: str | None) -> None:
    path = secret(place, mode)
    expected = None if acts is None else f"every user of this machine may {acts} it; run: chmod o= '{path}'"
    assert exposure(path) == expected


def test_a_directory_that_others_may_not_enter_protects_its_files(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o750)
    path = secret(closed, 0o644)
    link = place / "link"
    link.symlink_to(path)
    assert (exposure(path), exposure(link)) == (None, None)
    closed.chmod(0o751)
    assert exposure(path) is not None
    assert exposure(link) is not None


def test_the_remedy_ends_the_warning(place: Path) -> None:
    path = secret(place, 0o666)
    path.chmod(path.stat().st_mode & 0o770)
    assert exposure(path) is None


def test_a_file_that_cannot_be_looked_at_has_no_warning(place: Path) -> None:
    (place / "loop").symlink_to(place / "loop")
    assert (exposure(place / "none"), exposure(place / "loop")) == (None, None)
