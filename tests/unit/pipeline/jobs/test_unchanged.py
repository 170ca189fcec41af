"""A run ends before Spark starts where nothing is new, and never where anything is."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from lethe.pipeline.io import known_inputs
from lethe.pipeline.io.known_inputs import (
    KnownFile,
    KnownInputs,
    KnownSurveys,
    read_known,
    survey_key,
    surveys_identity,
    write_known,
)
from lethe.pipeline.io.lake_state import PENDING, LakeState
from lethe.pipeline.io.local_files import LocalFiles, file_identity
from lethe.pipeline.io.lock import acquire_local
from lethe.pipeline.io.staging import WORK
from lethe.pipeline.io.table_log import TableFile, TableLog
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.jobs.rules import RuleChanges
from lethe.pipeline.jobs.unchanged import Look, RunInputs, look
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.tables import (
    CONTROLLER_EVENTS,
    DELETION_SPANS,
    QUARANTINE,
    STUCK_NOW,
    SURVEYS,
    VIOLATIONS,
    WAITING_DELETIONS,
)
from lethe.protocol.lake import IDENTITY, encode_identity
from lethe.protocol.lake_rules import PLACE, LakeRules, encode_rules, file_of
from tests.fakes.lakes import note_audited, write
from tests.fakes.rights import open_directory, unprivileged

DAY: Final = datetime.date(2026, 1, 5)
NEXT: Final = datetime.date(2026, 1, 6)
NOW: Final = datetime.datetime(2026, 1, 9, 12, tzinfo=datetime.UTC)
HOUR: Final = datetime.timedelta(hours=1)
MINUTE: Final = datetime.timedelta(minutes=1)


class World:
    """A journal and a kept survey that the lake's last run has read to the end."""

    def __init__(self, place: Path) -> None:
        self.lake, self.journal, self.surveys = place / "lake", place / "a journal", place / "surveys"
        for directory in (self.journal, self.surveys / "s1", self.lake / PLACE):
            directory.mkdir(parents=True)
        (self.journal / "one.jsonl").write_text("a line\n")
        (self.journal / "two.jsonl.gz").write_bytes(b"compressed")
        (self.journal / "notes.txt").write_text("not of the journal")
        (self.surveys / "s1" / "survey.json").write_text("{}")
        (self.lake / IDENTITY).write_text(encode_identity(None))
        (self.lake / PLACE / file_of(1)).write_text(encode_rules(LakeRules(30.0, (), False, 300_000)))
        for table in (CONTROLLER_EVENTS, DELETION_SPANS):
            write(self.lake, table, [{"day": DAY}])
        write(self.lake, SURVEYS, [{"survey_id": "s1", "taken_at": NOW - 24 * HOUR, "day": DAY}])
        found = (("warning", DAY), ("error", NEXT))
        write(self.lake, VIOLATIONS, [{"rule": "no-gap", "severity": name, "day": day} for name, day in found])
        for table in (WAITING_DELETIONS, STUCK_NOW, QUARANTINE):
            write(self.lake, table, [])
        note_audited(self.lake)
        self.note()

    def note(self, *, as_of: datetime.datetime = NOW) -> None:
        journals = [path for path in self.journal.iterdir() if path.name != "notes.txt"]
        files = {f"file:{path}": KnownFile(file_identity(str(path)) or "", {str(DAY): 3}, 1) for path in journals}
        places = [str(self.surveys)]
        surveys = {survey_key(places): KnownSurveys(surveys_identity(places) or "", 1, 1, (str(DAY),))}
        write_known(LocalFiles(str(self.lake)), KnownInputs(files, surveys, as_of.isoformat()))

    def wait(self, topic: str, since: datetime.datetime) -> None:
        """Let a deletion wait since then."""
        write(self.lake, WAITING_DELETIONS, [{"topic": topic, "span": 1, "since": since, "reasons": ["a broker"]}])

    def stuck(self) -> dict[str, int]:
        """Milliseconds by topic."""
        rows = LakeReader(str(self.lake)).table(STUCK_NOW).to_pylist()
        return {row["topic"]: row["waiting_ms"] for row in rows}

    def stuck_files(self) -> list[str]:
        return [file.path for file in LakeState(LocalFiles(str(self.lake))).files_of(STUCK_NOW)]

    def as_of(self) -> str:
        known = read_known(LakeState(LocalFiles(str(self.lake))))
        return "" if known is None else known.as_of

    def look(
        self,
        now: datetime.datetime = NOW + HOUR,
        days: DayRange = DayRange(),  # noqa: B008 -- it cannot be changed
        journals: tuple[str, ...] | None = None,
        surveys: bool = True,
        **changes: float,
    ) -> Look:
        places = (str(self.journal),) if journals is None else journals
        surveyed = (str(self.surveys),) if surveys else ()
        asked = RunInputs(str(self.lake), places, surveyed, days, RuleChanges(**changes))  # type: ignore[arg-type]
        return look(asked, now, batch_id="looking")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_a_run_would_say_is_said_without_one(world: World) -> None:
    report = world.look().report
    assert report is not None
    assert report.taken[0] == ("controller_events", 8, 0, 6, 0, 2)
    assert report.taken[1] == ("surveys", 1, 0, 1, 0, 0)
    assert (report.days, report.made, report.rows) == ((DAY,), (), {"stuck_now": 0})
    assert (report.errors, report.warnings) == (1, 1), "of the next day too"
    assert not (world.lake / "_lock").read_text(), "and the lock is given back"


def test_what_waits_becomes_stuck_from_one_look_to_the_next(world: World) -> None:
    world.wait("orders", NOW)
    before = world.stuck_files()
    report = world.look(NOW + 4 * MINUTE).report
    assert report is not None
    assert (report.rows, world.stuck(), world.stuck_files()) == ({"stuck_now": 0}, {}, before), "nothing is written"
    assert world.as_of() == NOW.isoformat()
    for minutes in (5, 7):
        report = world.look(NOW + minutes * MINUTE).report
        assert report is not None
        assert (report.rows, world.stuck()) == ({"stuck_now": 1}, {"orders": minutes * 60_000})
        assert world.as_of() == (NOW + minutes * MINUTE).isoformat()
        assert len(world.stuck_files()) == 1
    assert not list((world.lake / WORK).iterdir())


def test_the_same_moment_twice_writes_once(world: World) -> None:
    world.wait("orders", NOW)
    world.look()
    status = (world.lake / STUCK_NOW.path).stat()
    assert world.look().report is not None
    assert (world.lake / STUCK_NOW.path).stat().st_ino == status.st_ino


def test_lines_of_other_days_are_not_counted(world: World) -> None:
    report = world.look(days=DayRange(NEXT, None), surveys=False).report
    assert report is not None
    assert report.taken == (("controller_events", 2, 0, 0, 0, 2),)
    assert (report.days, report.errors) == ((), 0)


def grow(world: World) -> None:
    with (world.journal / "one.jsonl").open("a") as file:
        file.write("more\n")


def replace_by_another_of_the_same_size_and_time(world: World) -> None:
    file, other = world.journal / "one.jsonl", world.journal / "other"
    other.write_text("A LINE\n")
    shutil.copystat(file, other)
    other.rename(file)


def overwrite_and_set_the_time_back(world: World) -> None:
    file = world.journal / "one.jsonl"
    status = file.stat()
    file.write_text("A LINE\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def rotate(world: World) -> None:
    (world.journal / "one.jsonl").rename(world.journal / "one-1.jsonl")


def add_hidden_from_spark(world: World) -> None:
    (world.journal / "_new.jsonl").write_text("")


def drop_a_day_of_bronze(world: World) -> None:
    shutil.rmtree(world.lake / CONTROLLER_EVENTS.path)


def drop_the_quarantine(world: World) -> None:
    shutil.rmtree(world.lake / QUARANTINE.path)


def change_the_survey(world: World) -> None:
    (world.surveys / "s1" / "survey.json").write_text("[]")


def remove_the_surveys(world: World) -> None:
    shutil.rmtree(world.surveys)


def leave_a_change_unfinished(world: World) -> None:
    (world.lake / "_work" / "run-000001").mkdir(parents=True)


def leave_a_day_pending(world: World) -> None:
    (world.lake / "_pending").mkdir()
    (world.lake / "_pending" / str(DAY)).touch()


def write_as_a_stream_does(world: World) -> None:
    write(world.lake, DELETION_SPANS, [{"day": DAY}])


def damage_the_note(world: World) -> None:
    (world.lake / known_inputs.NAME).write_text("{")


def take_the_note_of_another_program(world: World) -> None:
    note = world.lake / known_inputs.NAME
    note.write_text(note.read_text().replace(known_inputs.program(), "0" * 32))


def drop_what_waits(world: World) -> None:
    shutil.rmtree(world.lake / WAITING_DELETIONS.path)


def make_the_tables_a_day_earlier(world: World) -> None:
    world.note(as_of=NOW - 24 * HOUR)


def take_a_survey_of_the_future(world: World) -> None:
    write(world.lake, SURVEYS, [{"survey_id": "s1", "taken_at": NOW + HOUR / 2, "day": DAY}])


@pytest.mark.parametrize(
    "change",
    [
        grow,
        replace_by_another_of_the_same_size_and_time,
        overwrite_and_set_the_time_back,
        rotate,
        add_hidden_from_spark,
        drop_a_day_of_bronze,
        drop_the_quarantine,
        change_the_survey,
        remove_the_surveys,
        leave_a_change_unfinished,
        leave_a_day_pending,
        write_as_a_stream_does,
        damage_the_note,
        take_the_note_of_another_program,
        drop_what_waits,
        make_the_tables_a_day_earlier,
        take_a_survey_of_the_future,
    ],
)
def test_whatever_is_new_is_left_to_spark(world: World, change: Callable[[World], None]) -> None:
    change(world)
    assert world.look().report is None


@pytest.mark.parametrize("pattern", ["*journal*/*.jsonl*", "*/a j*/*.jsonl"])
def test_what_a_pattern_cannot_search_is_named(pattern: str) -> None:
    with open_directory() as place:
        place.chmod(0o777)
        with unprivileged():
            (place / "b").mkdir()
            world, more = World(place / "b"), place / "b" / "new journal"
            for each in (more, place / "c"):
                each.mkdir()
            places = (f"{place if pattern.startswith('*/') else place / 'b'}/{pattern}",)
            assert world.look(journals=places).report is not None
            for each in (more, place / "c"):
                each.chmod(0)
            with pytest.raises(PermissionError, match="cannot see what is in"):
                world.look(journals=places)
            for each in (more, place / "c"):
                each.chmod(0o700)


def test_a_survey_that_cannot_be_seen_is_left_to_spark() -> None:
    with open_directory() as place:
        place.chmod(0o777)
        with unprivileged():
            world = World(place)
            (world.surveys / "s2").mkdir()
            assert world.look().report is not None, "an empty directory is no survey"
            (world.surveys / "s2").chmod(0)
            assert world.look().report is None
            (world.surveys / "s2").chmod(0o700)


def test_other_options_are_left_to_spark(world: World) -> None:
    assert world.look(stuck_after_ms=1).report is None
    assert world.look(unwritten_days=31).report is None
    assert world.look(unwritten_days=30, stuck_after_ms=300_000).report is not None, "as they are in force"
    assert world.look(days=DayRange(DAY, None)).report is None, "surveys are known for all days alone"
    for places in (("hdfs://namenode/journal",), ("/nowhere",), (f"{world.journal}/[a-z]*",), (str(world.surveys),)):
        assert world.look(journals=places).report is None, places
    assert world.look(journals=(f"{world.journal}/*.jsonl*",)).report is not None


def test_while_another_process_writes_nothing_is_known(world: World) -> None:
    world.wait("orders", NOW)
    with acquire_local(world.lake, "another"):
        assert world.look() == Look()
    assert world.stuck() == {}


def test_how_much_is_to_be_read_is_known_before_spark_starts(world: World, tmp_path: Path) -> None:
    grow(world)
    size = (world.journal / "one.jsonl").stat().st_size
    for day, count in ((DAY, 1_000), (NEXT, 20_000)):
        TableLog(str(world.lake), CONTROLLER_EVENTS).change([TableFile(f"day={day}/rows.parquet", day, count)])
    assert world.look().unread_bytes == size + 20 * 20_000, "with the largest day, which may be read again"
    (world.journal / "three.jsonl").write_bytes(b"x" * 2_000_000)
    assert (world.look().unread_bytes or 0) > 2_000_000
    shutil.rmtree(world.lake)
    assert (world.look().unread_bytes or 0) > 2_000_000, "of a lake that begins"


def test_all_days_that_are_made_anew_are_counted(world: World) -> None:
    log = TableLog(str(world.lake), CONTROLLER_EVENTS)
    log.change([TableFile(f"day={day}/rows.parquet", day, 20_000) for day in (DAY, NEXT)])
    (world.lake / PENDING).mkdir()
    (world.lake / PENDING / str(DAY)).touch()
    assert 20 * 20_000 <= (world.look().unread_bytes or 0) < 20 * 40_000
    (world.lake / PENDING / str(NEXT)).touch()
    assert (world.look().unread_bytes or 0) >= 20 * 40_000
    shutil.rmtree(world.lake / PENDING)
    (world.lake / known_inputs.NAME).unlink()
    assert (world.look().unread_bytes or 0) >= 20 * 40_000, "nothing is noted"


def test_a_stream_makes_the_note_forget(world: World) -> None:
    lake = LakeState(LocalFiles(str(world.lake)))
    known_inputs.forget(lake, files=False)
    known = read_known(lake)
    assert known is not None
    assert (len(known.files), known.as_of) == (2, "")
    known_inputs.forget(lake, files=True)
    assert read_known(lake) == KnownInputs()
