"""The journal's two ways: the topic has the very lines of the files, and neither holds the other up for good."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from lethe.adapters.clock import SystemClock
from lethe.adapters.journal import Journal, JournalConfig
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, decode


class FakeOutlet:
    """Keeps the lines; can refuse them, or hold them until released."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.refusing: str | None = None
        self.taken_before_refusing = 0
        self.released = threading.Event()
        self.released.set()
        self.entered = threading.Event()
        self.hastened = threading.Event()
        self.closed = False

    def write(self, lines: Sequence[bytes]) -> tuple[int, Exception | None]:
        self.entered.set()
        assert self.released.wait(30)
        if self.refusing is not None:
            self.lines += lines[: self.taken_before_refusing]
            return self.taken_before_refusing, RuntimeError(self.refusing)
        self.lines += lines
        return len(lines), None

    def hasten(self) -> None:
        self.hastened.set()

    def close(self) -> None:
        self.closed = True

    @property
    def entries(self) -> list[JournalEntry]:
        found = [decode(line) for line in self.lines]
        return [entry for entry in found if isinstance(entry, JournalEntry)]

    @property
    def numbers(self) -> list[object]:
        return [entry.record.data["number"] for entry in self.entries if entry.record.type is EventRecordType.EVENT]

    @property
    def gaps(self) -> list[JournalEntry]:
        return [entry for entry in self.entries if entry.record.type is EventRecordType.GAP]


def record(number: int) -> EventRecord:
    return EventRecord(EventRecordType.EVENT, "controller/1", {"number": number})


def on_disk(directory: Path) -> list[bytes]:
    return [line for path in sorted(directory.glob("*.jsonl")) for line in path.read_bytes().splitlines(keepends=True)]


def reach(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit, "the condition was not reached within 30 s"
        threading.Event().wait(0.002)


Start = Callable[..., Journal]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Journal] = []

    def begin(directory: Path | None, outlet: FakeOutlet, *, max_queued: int = 50_000, retry_ms: int = 0) -> Journal:
        config = JournalConfig(
            directory, "controller-1", "/lethe/controller/1", max_queued=max_queued, retry_ms=retry_ms
        )
        started.append(Journal(config, SystemClock(), topic=outlet))
        return started[-1]

    yield begin
    for journal in started:
        journal.close()


def lost_and_failing(journal: Journal) -> tuple[int, str | None]:
    assert journal.topic_counts is not None
    return journal.topic_counts.lost, journal.topic_counts.failing


def test_both_have_the_same_bytes_in_the_same_order(tmp_path: Path, start: Start) -> None:
    outlet = FakeOutlet()
    journal = start(tmp_path, outlet)
    for number in range(2500):
        journal.record(record(number))
    journal.close(limit_s=30)
    assert outlet.numbers == list(range(2500))
    assert outlet.lines == on_disk(tmp_path)
    assert outlet.closed
    assert journal.topic_counts is not None
    assert journal.counts.written == journal.topic_counts.written == 2500


def test_without_files_the_topic_has_everything(start: Start) -> None:
    outlet = FakeOutlet()
    journal = start(None, outlet)
    journal.record(record(1))
    journal.close(limit_s=30)
    assert [entry.id.rpartition("-")[2] for entry in outlet.entries] == ["1"]
    assert (journal.has_files, journal.counts.written, outlet.numbers) == (False, 0, [1])


def test_the_files_go_on_while_brokers_are_away_and_the_topic_tells_what_it_lacks(tmp_path: Path, start: Start) -> None:
    outlet = FakeOutlet()
    outlet.refusing, outlet.taken_before_refusing = "no broker", 1
    journal = start(tmp_path, outlet)
    journal.record(record(0))
    reach(lambda: lost_and_failing(journal)[1] is not None)
    outlet.taken_before_refusing = 0
    for number in range(1, 100):
        journal.record(record(number))
    reach(lambda: lost_and_failing(journal)[0] == 99 + (1 - len(outlet.numbers)))
    lost, failing = lost_and_failing(journal)
    assert failing == "writing failed: no broker"
    outlet.refusing = None
    journal.record(record(100))
    journal.close(limit_s=30)
    assert [decode(line).record.data["number"] for line in on_disk(tmp_path)] == list(range(101))  # type: ignore[union-attr]
    assert outlet.numbers[-1] == 100
    assert sum(int(str(gap.record.data["count"])) for gap in outlet.gaps) == lost == 101 - len(outlet.numbers)
    assert lost_and_failing(journal) == (lost, None)


def test_losses_are_told_though_no_further_fact_comes(tmp_path: Path, start: Start) -> None:
    outlet = FakeOutlet()
    outlet.refusing = "no broker"
    journal = start(tmp_path, outlet, retry_ms=1)
    for number in range(3):
        journal.record(record(number))
    reach(lambda: lost_and_failing(journal)[0] == 3)
    outlet.refusing = None
    reach(lambda: lost_and_failing(journal) == (3, None))
    assert [gap.record.data["count"] for gap in outlet.gaps] == [3]
    journal.close(limit_s=30)
    assert journal.counts.written == 3, "the files lack nothing, and say nothing of it"


def test_what_the_topic_tells_of_its_losses_is_numbered_apart(tmp_path: Path, start: Start) -> None:
    outlet = FakeOutlet()
    outlet.refusing = "no broker"
    journal = start(tmp_path, outlet)
    for number in range(5):
        journal.record(record(number))
    reach(lambda: lost_and_failing(journal)[0] == 5)
    outlet.refusing = None
    journal.record(record(5))
    journal.close(limit_s=30)
    filed = [decode(line) for line in on_disk(tmp_path)]
    assert [entry.id.rpartition("-")[2] for entry in filed if isinstance(entry, JournalEntry)] == [
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
    ]
    assert all(gap.id.rpartition("-")[2].startswith("t") for gap in outlet.gaps)
    assert len({entry.id for entry in (*outlet.entries, *filed) if isinstance(entry, JournalEntry)}) == 6 + len(
        outlet.gaps
    )
    assert [gap.record.subject for gap in outlet.gaps] == ["controller/1"]


def test_a_topic_that_holds_still_holds_up_neither_the_daemon_nor_the_files(tmp_path: Path, start: Start) -> None:
    outlet = FakeOutlet()
    outlet.released.clear()
    journal = start(tmp_path, outlet, max_queued=10)
    journal.record(record(0))
    assert outlet.entered.wait(30)
    for number in range(1, 31):
        journal.record(record(number))
        reach(lambda number=number: journal.counts.written == number + 1)  # type: ignore[misc]
    assert len(on_disk(tmp_path)) == 31
    outlet.released.set()
    reach(lambda: len(outlet.gaps) == 1)
    journal.close(limit_s=30)
    assert outlet.numbers == list(range(11))
    assert outlet.gaps[0].record.data["count"] == 20
    assert outlet.gaps[0].record.data["reason"] == "event records came faster than they could be written"


def test_closing_hastens_the_topic_and_does_not_wait_for_ever(tmp_path: Path, start: Start) -> None:
    outlet = FakeOutlet()
    outlet.released.clear()
    journal = start(tmp_path, outlet)
    journal.record(record(0))
    assert outlet.entered.wait(30)
    journal.close(limit_s=0.05)
    assert outlet.hastened.is_set()
    assert len(on_disk(tmp_path)) == 1
    outlet.released.set()


def test_a_full_disk_keeps_nothing_from_the_topic(tmp_path: Path, start: Start) -> None:
    (tmp_path / "file").write_text("no directory")
    outlet = FakeOutlet()
    journal = start(tmp_path / "file" / "journal", outlet, retry_ms=60_000)
    journal.record(record(0))
    reach(lambda: journal.counts.failing is not None)
    for number in range(1, 50):
        journal.record(record(number))
    journal.close(limit_s=30)
    assert journal.counts.lost == 50
    assert outlet.numbers == list(range(50))
