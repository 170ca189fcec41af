"""Growing, rotated files: what is taken, what waits, what is told as lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lethe.pipeline.io.tailing import (
    ByteRange,
    JournalTailer,
    LineBlock,
    LostBytes,
    ReadPosition,
    batch_end,
    group_ranges,
    list_journal_files,
    ranges_between,
    read_range,
    survey_fingerprint,
    unread_bytes,
)
from tests.fakes.rights import open_directory, unprivileged


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    path.mkdir()
    return path


def write(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def step(
    journal: Path, start: dict[str, ReadPosition], max_bytes: int | None = None
) -> tuple[dict[str, ReadPosition], list[ByteRange]]:
    end = batch_end(start, JournalTailer([str(journal)]).poll(), max_bytes)
    return end, ranges_between(start, end)


def lines(found: list[ByteRange]) -> list[str]:
    texts = [
        text.decode() for one in found for got in read_range(one) if isinstance(got, LineBlock) for text in got.texts
    ]
    return sorted(texts)


def gone(found: list[ByteRange]) -> list[tuple[int, int]]:
    return [(got.first, got.last) for one in found for got in read_range(one) if isinstance(got, LostBytes)]


def test_what_is_appended_is_read_and_a_line_without_end_waits(journal: Path) -> None:
    write(journal / "a.jsonl", "a1\na2\na3")
    write(journal / "notes.txt", "x\n")
    write(journal / ".b.jsonl", "x\n")
    first, found = step(journal, {})
    assert lines(found) == ["a1", "a2"]
    assert step(journal, first) == (first, [])
    write(journal / "a.jsonl", "+\n\n")
    write(journal / "b.jsonl", "b1")
    second, found = step(journal, first)
    assert lines(found) == ["", "a3+"]
    assert list(second) == [str(journal / "a.jsonl")], "nothing is known of a file whose first line is not whole"
    write(journal / "b.jsonl", "\n")
    assert lines(step(journal, second)[1]) == ["b1"]
    assert lines(ranges_between(first, second)) == ["", "a3+"], "the same ranges give the same lines"


def test_a_file_that_was_replaced_is_another_one(journal: Path) -> None:
    path = journal / "a.jsonl"
    write(path, "a1\na2\n")
    start, _ = step(journal, {})
    path.unlink()
    write(path, "b1\n")
    end, found = step(journal, start)
    assert (lines(found), gone(found)) == (["b1"], [])
    path.write_text("a1\na2\na3\n")
    assert lines(step(journal, start)[1]) == ["a3"], "a copy of the same file is the same, whatever its inode"
    assert lines(step(journal, end)[1]) == ["a1", "a2", "a3"]


def test_what_was_seen_and_is_gone_is_told(journal: Path) -> None:
    write(journal / "a.jsonl", "a1\na2\na3\n")
    start, found = step(journal, {}, 4)
    assert lines(found) == ["a1"]
    (journal / "a.jsonl").unlink()
    end, lost = step(journal, start)
    assert (end, gone(lost)) == ({}, [(3, 9)])
    write(journal / "b.jsonl", "b1\nb2\nb3\n")
    _, planned = step(journal, end)
    (journal / "b.jsonl").write_text("b1\nb2\n")
    assert (lines(planned), gone(planned)) == (["b1", "b2"], [(6, 9)]), "it shrank before it was read"
    (journal / "b.jsonl").unlink()
    assert gone(planned) == [(0, 9)]
    write(journal / "b.jsonl", "another\nfile\n")
    assert (lines(planned), gone(planned)) == ([], [(0, 9)])


def test_a_file_that_shrank_is_gone_on_with(journal: Path) -> None:
    write(journal / "a.jsonl", "a1\na2\na3\n")
    start, _ = step(journal, {})
    (journal / "a.jsonl").write_text("a1\na")
    shrunk, found = step(journal, start)
    assert found == []
    write(journal / "a.jsonl", "4\n")
    assert lines(step(journal, shrunk)[1]) == ["a4"]


def test_of_a_directory_that_is_not_there_nothing_is_concluded(journal: Path) -> None:
    write(journal / "a.jsonl", "a1\na2\n")
    start, _ = step(journal, {}, 3)
    journal.rename(journal.with_name("unmounted"))
    end, found = step(journal, start)
    assert (end, found) == (start, [])
    journal.with_name("unmounted").rename(journal)
    assert lines(step(journal, end)[1]) == ["a2"]


@pytest.mark.parametrize("max_bytes", [1, 3, 7, 20, 1000])
def test_batches_and_pieces_are_bounded_and_lose_nothing(journal: Path, max_bytes: int) -> None:
    expected = sorted(f"{name}{'x' * (number % 11)}{number}" for name in "abc" for number in range(9))
    for text in expected:
        write(journal / f"{text[0]}.jsonl", text + "\n")
    longest = max(map(len, expected)) + 1
    now = JournalTailer([str(journal)]).poll()
    start: dict[str, ReadPosition] = {}
    taken: list[str] = []
    while unread_bytes(start, now):
        end = batch_end(start, now, max_bytes)
        found = ranges_between(start, end)
        assert 0 < sum(one.last - one.first for one in found) <= max_bytes + longest
        groups = group_ranges(found, max_bytes)
        assert sum(map(len, groups)) >= len(found)
        taken += lines([one for group in groups for one in group])
        start = end
    assert sorted(taken) == expected
    whole = group_ranges(ranges_between({}, start), max_bytes)
    assert lines([one for group in whole for one in group]) == expected
    assert all(sum(one.last - one.first for one in group) <= max_bytes + longest for group in whole)


def test_places_are_directories_files_and_patterns(tmp_path: Path) -> None:
    for name in ("c1", "c2"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "a.jsonl", "x\n")
    both = [str(tmp_path / name / "a.jsonl") for name in ("c1", "c2")]
    assert list_journal_files([str(tmp_path / "c*")]) == both
    assert list_journal_files([str(tmp_path / "c1"), both[0], str(tmp_path / "nowhere")]) == both[:1]


@pytest.mark.parametrize(
    "mode, place", [(0, "*/journal"), (0, "b/journal"), (0, "*/jour*/*.jsonl"), (0o100, "b/jour*")]
)
def test_what_cannot_be_searched_is_named_and_not_passed_over(mode: int, place: str) -> None:
    with open_directory() as root:
        for name in ("a", "b"):
            (root / name / "journal").mkdir(parents=True)
            write(root / name / "journal" / "a.jsonl", "x\n")
        (root / "b").chmod(mode)
        (root / "c").write_text("no directory")
        with unprivileged():
            for look in (list_journal_files, survey_fingerprint):
                with pytest.raises(PermissionError, match=f"cannot see what is in {root}/b, for {root}/"):
                    look([f"{root}/{place}"])
        (root / "b").chmod(0o700)


def test_a_directory_may_be_passed_through_without_listing_it() -> None:
    with open_directory() as root:
        (root / "b" / "journal").mkdir(parents=True)
        write(root / "b" / "journal" / "a.jsonl", "x\n")
        (root / "b").chmod(0o711)
        with unprivileged():
            assert list_journal_files([f"{root}/*/journal"]) == [f"{root}/b/journal/a.jsonl"]


def test_new_surveys_are_noticed(tmp_path: Path) -> None:
    before = survey_fingerprint([str(tmp_path)])
    (tmp_path / ".s1").mkdir()
    (tmp_path / ".s1" / "survey.json").write_text("{}")
    assert survey_fingerprint([str(tmp_path)]) == before
    (tmp_path / ".s1").rename(tmp_path / "s1")
    kept = survey_fingerprint([str(tmp_path)])
    assert kept != before
    (tmp_path / "s1" / "znodes.jsonl").write_text("{}\n")
    grown = survey_fingerprint([str(tmp_path)])
    assert grown not in (before, kept)
    # A true copy in the place of a damaged one may be as long.
    (tmp_path / "s1" / "znodes.jsonl").write_text("[]\n")
    os.utime(tmp_path / "s1" / "znodes.jsonl", (1, 1))
    assert survey_fingerprint([str(tmp_path)]) != grown


def test_a_survey_of_which_something_is_gone_ends_nothing(tmp_path: Path) -> None:
    """As whoever removes old ones leaves it for a moment; a link to nowhere is the same, and stays."""
    survey = tmp_path / "20260102T030405.678Z-host"
    survey.mkdir()
    (survey / "survey.json").write_text("{}")
    before = survey_fingerprint([str(tmp_path)])
    (survey / "znodes.jsonl").symlink_to(tmp_path / "nowhere")
    assert survey_fingerprint([str(tmp_path)]) not in ("", before)


def test_a_survey_that_cannot_be_seen_is_another_state() -> None:
    with open_directory() as place:
        kept, closed = place / "s1", place / "s2"
        kept.mkdir(mode=0o755)
        (kept / "survey.json").write_text("{}")
        before = survey_fingerprint([str(place)])
        closed.mkdir()
        assert survey_fingerprint([str(place)]) == before, "an empty directory is no survey"
        closed.chmod(0)
        with unprivileged():
            unseen = survey_fingerprint([str(place)])
        assert unseen != before
        (closed / "survey.json").write_text("{}")
        closed.chmod(0o755)
        assert survey_fingerprint([str(place)]) not in (before, unseen)
