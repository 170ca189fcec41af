import errno
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lethe.adapters.clock import SystemClock
from lethe.adapters.journal import AppendableFile, Journal, JournalConfig, UnbufferedFile
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, UnreadableLine, decode_lines


def record(number: int) -> EventRecord:
    return EventRecord(EventRecordType.EVENT, "controller/1", {"number": number})


def config(directory: Path, **values: int) -> JournalConfig:
    return JournalConfig(directory, "controller-1", "/lethe/controller/1", **values)


def entries(directory: Path) -> list[JournalEntry | UnreadableLine]:
    lines = [line for path in sorted(directory.glob("*.jsonl")) for line in path.read_bytes().splitlines(keepends=True)]
    return list(decode_lines(lines))


def records(directory: Path) -> list[EventRecord]:
    return [found.record for found in entries(directory) if isinstance(found, JournalEntry)]


def numbers(directory: Path) -> list[object]:
    return [found.data["number"] for found in records(directory) if found.type is EventRecordType.EVENT]


def gaps(directory: Path) -> list[EventRecord]:
    return [found for found in records(directory) if found.type is EventRecordType.GAP]


def reach(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit, "the condition was not reached within 30 s"
        threading.Event().wait(0.002)


Start = Callable[..., Journal]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Journal] = []

    def begin(settings: JournalConfig, open_sink: Callable[[Path], AppendableFile] = UnbufferedFile) -> Journal:
        started.append(Journal(settings, SystemClock(), open_sink))
        return started[-1]

    yield begin
    for journal in started:
        journal.close()


def test_facts_become_lines_in_order(tmp_path: Path, start: Start) -> None:
    journal = start(config(tmp_path / "made" / "here"))
    for number in range(2500):
        journal.record(record(number))
    journal.close(limit_s=30)
    assert numbers(tmp_path / "made" / "here") == list(range(2500))
    found = entries(tmp_path / "made" / "here")
    assert len({entry.id for entry in found if isinstance(entry, JournalEntry)}) == 2500
    assert (journal.counts.written, journal.counts.lost, journal.counts.failing) == (2500, 0, None)


def test_all_files_together_stay_below_their_limit(tmp_path: Path, start: Start) -> None:
    journal = start(config(tmp_path, max_bytes=2000, max_files=3))
    for number in range(500):
        journal.record(record(number))
    journal.close(limit_s=30)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(path.stat().st_size <= 2000 for path in files)
    kept = numbers(tmp_path)
    assert kept == list(range(500 - len(kept), 500))
    assert len(kept) > 15


def test_a_second_process_goes_on_where_the_first_ended(tmp_path: Path, start: Start) -> None:
    for number in range(3):
        journal = start(config(tmp_path))
        journal.record(record(number))
        journal.close(limit_s=30)
    assert numbers(tmp_path) == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path, start: Start) -> None:
    journal = start(config(tmp_path))
    journal.record(record(1))
    journal.close(limit_s=30)
    (path,) = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b'{"specversion":"1.0","id":"7')
    journal = start(config(tmp_path))
    journal.record(record(2))
    journal.close(limit_s=30)
    assert numbers(tmp_path) == [1, 2]
    assert sum(isinstance(found, UnreadableLine) for found in entries(tmp_path)) == 1


def test_files_of_others_are_left_alone(tmp_path: Path, start: Start) -> None:
    other = tmp_path / "controller-11-00000009.jsonl"
    other.write_bytes(b"")
    journal = start(config(tmp_path, max_bytes=300, max_files=1))
    for number in range(10):
        journal.record(record(number))
    journal.close(limit_s=30)
    assert other.exists()
    assert numbers(tmp_path) == [9]


class FullDisk(UnbufferedFile):
    """Takes `room` bytes and then says ENOSPC, until `room` grows again."""

    room = 0

    def write(self, data: bytes) -> int:
        if not FullDisk.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = super().write(data[: FullDisk.room])
        FullDisk.room -= taken
        return taken


def test_what_a_full_disk_did_not_take_is_told_later(tmp_path: Path, start: Start) -> None:
    FullDisk.room = 300
    journal = start(config(tmp_path, retry_ms=0), FullDisk)
    for number in range(100):
        journal.record(record(number))
    reach(lambda: journal.counts.failing is not None and journal.counts.written + journal.counts.lost == 100)
    FullDisk.room = 1_000_000
    journal.record(record(100))
    reach(lambda: journal.counts.failing is None)
    journal.close(limit_s=30)
    (gap,) = gaps(tmp_path)
    written = numbers(tmp_path)
    assert written[-1] == 100
    assert gap.data["count"] == 100 - (len(written) - 1)
    assert "No space left" in str(gap.data["reason"])
    assert str(gap.data["first"]) <= str(gap.data["last"])
    assert journal.counts.lost == gap.data["count"]
    # The cut-off line is one line by itself.
    assert sum(isinstance(found, UnreadableLine) for found in entries(tmp_path)) == 1


def test_a_disk_that_stays_full_stops_nobody(tmp_path: Path, start: Start) -> None:
    FullDisk.room = 0
    journal = start(config(tmp_path), FullDisk)
    for number in range(5000):
        journal.record(record(number))
    journal.close(limit_s=30)
    assert journal.counts.lost == 5000
    assert records(tmp_path) == []


def test_a_directory_that_cannot_be_made_stops_nobody(tmp_path: Path, start: Start) -> None:
    (tmp_path / "file").write_text("not a directory")
    journal = start(config(tmp_path / "file" / "journal"))
    journal.record(record(1))
    journal.close(limit_s=30)
    assert journal.counts.lost == 1
    assert journal.counts.failing is not None


class StalledDisk(UnbufferedFile):
    """Holds its first write until released."""

    entered: threading.Event
    released: threading.Event

    def write(self, data: bytes) -> int:
        StalledDisk.entered.set()
        assert StalledDisk.released.wait(30)
        return super().write(data)


def point(link: Path, target: Path) -> None:
    """Replace the link with one to this target."""
    new = link.with_name("new")
    new.symlink_to(target)
    new.replace(link)


def test_a_directory_that_is_taken_away_is_told_of_and_written_again_when_it_is_back(
    tmp_path: Path, start: Start
) -> None:
    # A link can be replaced at one stroke: the journal makes a directory that is missing for a moment.
    directory, elsewhere, in_its_place = (tmp_path / name for name in ("journal", "elsewhere", "file"))
    elsewhere.mkdir()
    in_its_place.write_text("a file where a directory was")
    directory.symlink_to(elsewhere)
    journal = start(config(directory, max_bytes=4096, retry_ms=1))
    for number in range(10):
        journal.record(record(number))
    reach(lambda: journal.counts.written == 10)
    point(directory, in_its_place)
    for number in range(10, 100):
        journal.record(record(number))
    reach(lambda: journal.counts.failing is not None)
    point(directory, elsewhere)

    def goes_on() -> bool:
        journal.record(record(100))
        return journal.counts.failing is None and 100 in numbers(directory)

    reach(goes_on)
    journal.close(limit_s=30)
    assert numbers(directory)[:10] == list(range(10))
    assert gaps(directory)


def test_a_stalled_disk_blocks_nobody_and_the_gap_stands_where_it_was(tmp_path: Path, start: Start) -> None:
    StalledDisk.entered, StalledDisk.released = threading.Event(), threading.Event()
    journal = start(config(tmp_path, max_queued=10), StalledDisk)
    journal.record(record(0))
    assert StalledDisk.entered.wait(30)
    for number in range(1, 31):
        journal.record(record(number))
    StalledDisk.released.set()
    reach(lambda: journal.counts.written >= 12)
    journal.record(record(31))
    journal.close(limit_s=30)
    kinds = [found.data.get("number", found.data.get("count")) for found in records(tmp_path)]
    assert kinds == [*range(11), 20, 31]
    assert gaps(tmp_path)[0].data["reason"] == "event records came faster than they could be written"


def test_closing_does_not_wait_for_a_stalled_disk(tmp_path: Path, start: Start) -> None:
    StalledDisk.entered, StalledDisk.released = threading.Event(), threading.Event()
    journal = start(config(tmp_path), StalledDisk)
    journal.record(record(0))
    assert StalledDisk.entered.wait(30)
    journal.close(limit_s=0.05)
    journal.record(record(1))
    assert journal.counts.lost == 1
    StalledDisk.released.set()


def test_a_fact_that_is_no_json_is_a_gap(tmp_path: Path, start: Start) -> None:
    journal = start(config(tmp_path))
    journal.record(EventRecord(EventRecordType.ACK, "broker/1", {"what": object()}))  # type: ignore[dict-item]
    journal.record(EventRecord(EventRecordType.ACK, "broker/1", {"what": object()}))  # type: ignore[dict-item]
    journal.record(record(1))
    journal.close(limit_s=30)
    assert numbers(tmp_path) == [1]
    assert sum(int(str(gap.data["count"])) for gap in gaps(tmp_path)) == 2
    assert gaps(tmp_path)[0].data["reason"] == "ack: data is not JSON"
