"""The log of a table: what it had when, and what of it is damaged."""

from __future__ import annotations

import datetime
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lethe.pipeline.io.files import FileSystemError, with_port
from lethe.pipeline.io.lake_state import TEMPORARY_IDENTITY, LakeState
from lethe.pipeline.io.local_files import LocalFiles
from lethe.pipeline.io.staging import Staging
from lethe.pipeline.io.table_log import Batch, TableFile, TableLog, place_problem
from lethe.pipeline.report.lake_reader import LakeReader, LakeUnreadable
from lethe.pipeline.tables import DEBTS, STUCK_NOW
from lethe.protocol.lake import IDENTITY, LOG, encode_identity
from tests.fakes.lakes import write
from tests.fakes.rights import open_directory, unprivileged

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def made(root: Path, ages: Sequence[datetime.timedelta]) -> tuple[Path, TableLog]:
    """A table that was replaced so long ago each time; its files are 0, 1, ..."""
    table, log = root / STUCK_NOW.path, TableLog(str(root), STUCK_NOW)
    table.mkdir(parents=True)
    had: list[TableFile] = []
    for version, age in enumerate(ages):
        file = TableFile(f"{version}.parquet", None, 1)
        (table / file.path).write_text("x")
        log.change([file], had) if version else log.create([file])
        had = [file]
        _make_older(entry(table, version), NOW - age)
        os.utime(table / file.path, ((NOW - age).timestamp(),) * 2)
    return table, log


def entry(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def _make_older(change: Path, then: datetime.datetime) -> None:
    actions = [json.loads(line) for line in change.read_text().splitlines()]
    for name in ("timestamp", "deletionTimestamp", "modificationTime"):
        for body in (body for action in actions for body in action.values() if name in body):
            body[name] = int(then.timestamp() * 1000)
    change.write_text("\n".join(map(json.dumps, actions)))
    os.utime(change, (then.timestamp(), then.timestamp()))


def names(files: Sequence[TableFile] | None) -> list[str] | None:
    return None if files is None else [file.path.removesuffix(".parquet") for file in files]


def test_a_copy_whose_files_are_new_has_the_same_states(tmp_path: Path) -> None:
    table, log = made(tmp_path, [4 * DAY, 2 * DAY, 0 * DAY])
    for change in (table / "_delta_log").iterdir():
        change.touch()
    assert names(log.files_at(NOW - DAY)) == ["1"]
    assert names(log.files_at(NOW - 3 * DAY)) == ["0"]
    assert log.files_at(NOW - 5 * DAY) is None


def test_the_states_of_two_days_stay_and_no_more(tmp_path: Path) -> None:
    table, log = made(tmp_path, [9 * DAY, 7 * DAY, 4 * DAY, 3 * DAY, DAY, 0 * DAY])
    log.vacuum(NOW)
    assert sorted(file.stem for file in table.iterdir() if file.is_file()) == ["3", "4", "5"]


@pytest.mark.parametrize("damage", ["cut off", "a gap", "no beginning"])
def test_a_damaged_log_is_told_in_a_line_with_what_to_do(tmp_path: Path, damage: str) -> None:
    table, log = made(tmp_path, [0 * DAY] * 3)
    if damage == "cut off":
        entry(table, 2).write_text(entry(table, 2).read_text()[:300])
    else:
        entry(table, 1 if damage == "a gap" else 0).unlink()
    with pytest.raises(FileSystemError, match=r"cannot read the log of the table: .*: put a copy .* back") as refusal:
        log.files()
    assert len(str(refusal.value)) < 600
    assert str(refusal.value).isprintable()
    with pytest.raises(LakeUnreadable, match="put a copy"):
        LakeReader(str(tmp_path))


def test_a_change_that_a_power_failure_emptied_is_not_passed_over(tmp_path: Path) -> None:
    table, log = made(tmp_path, [0 * DAY] * 2)
    entry(table, 1).write_text("")
    words = r"the last change of the table is empty: .*1.json: put a copy .*, or remove it and"
    with pytest.raises(FileSystemError, match=words):
        log.files()
    entry(table, 1).unlink()
    assert names(log.files()) == ["0"]


def test_an_emptied_change_before_the_last_is_not_passed_over(tmp_path: Path) -> None:
    table, log = made(tmp_path, [0 * DAY] * 3)
    entry(table, 1).write_text("")
    with pytest.raises(FileSystemError, match=r"a change of the table is empty: .*1.json: put a copy .*, or make"):
        log.files()


def test_an_emptied_change_before_a_checkpoint_is_not_read(tmp_path: Path) -> None:
    table, log = made(tmp_path, [0 * DAY] * 3)
    had = log.files()
    DeltaTable(str(table)).create_checkpoint()
    entry(table, 1).write_text("")
    assert log.files() == had


def test_a_path_that_is_taken_for_another_one_is_refused(tmp_path: Path) -> None:
    for name in ("a%20b", "a%41b"):
        root = tmp_path / name
        assert "not found below a directory with '%" in (place_problem(f"file:{root}") or "")
        with pytest.raises(FileSystemError, match="name another one"):
            TableLog(str(root), STUCK_NOW).create()
        assert not root.exists()


def test_a_table_whose_files_have_other_rows_than_it_is_refused(tmp_path: Path) -> None:
    table, log = made(tmp_path, [0 * DAY])
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    entry(table, 1).write_text(json.dumps(protocol))
    with pytest.raises(FileSystemError, match="another program has changed what a table is: .*: put a copy"):
        log.files()


def test_a_log_that_this_user_may_not_read_is_not_an_empty_table() -> None:
    with open_directory() as root:
        table, log = made(root, [0 * DAY])
        (table / "_delta_log").chmod(0o700)
        with unprivileged(), pytest.raises(FileSystemError, match="Permission denied") as refusal:
            log.files()
        assert str(refusal.value).isprintable()
        (table / "_delta_log").chmod(0o755)
        with unprivileged():
            assert names(log.files()) == ["0"]


def test_a_table_that_has_lost_its_log_is_not_its_files(tmp_path: Path) -> None:
    table, _ = made(tmp_path, [0 * DAY] * 2)
    (tmp_path / IDENTITY).write_text(encode_identity(None))
    state = LakeState(LocalFiles(str(tmp_path)))
    for lost in (entry(table, 0), entry(table, 1)):
        lost.unlink()
    for _ in range(2):
        with pytest.raises(FileSystemError, match=r"the table has files and no log \(_delta_log\): .*: put a copy"):
            state.files_of(STUCK_NOW)
        for moment in (None, NOW - DAY):
            with pytest.raises(LakeUnreadable, match=r"the table has files and no log"):
                LakeReader(str(tmp_path), moment).has(STUCK_NOW)
        shutil.rmtree(table / "_delta_log", ignore_errors=True)
    assert not state.has(DEBTS)


class _Killed(BaseException):
    """The process is gone."""


class _Dying(LocalFiles):
    left = 0

    def rename(self, source: str, target: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Killed
        super().rename(source, target)


def test_a_kill_while_a_table_is_made_leaves_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / IDENTITY).write_text(encode_identity(None))
    for dies_at in range(10):
        files = _Dying(str(tmp_path))
        staging = Staging(files, f"run-{dies_at}")
        for day in (1, 2):
            place = f"{staging.new}/debts/day=2026-01-0{day}"
            files.make_directory(place)
            files.write_text(f"{place}/part-{dies_at}.parquet", "x")
        files.left = dies_at
        try:
            staging.commit(DEBTS, f"{staging.new}/debts")
            break
        except _Killed:
            assert not LakeReader(str(tmp_path)).days(DEBTS)
            assert LakeState(files).files_of(DEBTS) == ()
    assert dies_at == 2
    (tmp_path / STUCK_NOW.path / LOG).mkdir(parents=True)
    assert not LakeState(LocalFiles(str(tmp_path))).has(STUCK_NOW), "killed before the first entry"
    paths = [f"day=2026-01-0{day}/part-2" for day in (1, 2)]
    assert names(LakeState(LocalFiles(str(tmp_path))).files_of(DEBTS)) == paths


def test_a_lake_without_logs_is_known_by_the_file_that_a_crash_leaves(tmp_path: Path) -> None:
    write(tmp_path, STUCK_NOW, [], with_log=False)
    (tmp_path / TEMPORARY_IDENTITY).write_text('{"version": 1, "cluster_id": null}')
    assert not LakeState(LocalFiles(str(tmp_path))).has_logs
    (tmp_path / IDENTITY).write_text(encode_identity(None))
    assert LakeState(LocalFiles(str(tmp_path))).has_logs


def test_what_the_logs_do_not_tell_is_not_an_empty_lake(tmp_path: Path) -> None:
    made(tmp_path, [0 * DAY])
    with pytest.raises(LakeUnreadable, match=f"its logs do not reach back to {NOW - DAY:%Y-%m-%d %H:%M} UTC"):
        LakeReader(str(tmp_path), NOW - DAY)
    (tmp_path / IDENTITY).write_text(encode_identity(None))
    with pytest.raises(LakeUnreadable, match="its logs do not reach back"):
        LakeReader(str(tmp_path), NOW - DAY)


def file(number: int) -> TableFile:
    return TableFile(f"part-{number}.parquet", None, 1)


def test_files_come_and_go(tmp_path: Path) -> None:
    log = TableLog(f"file:{tmp_path}", STUCK_NOW)
    assert log.files() is None
    with pytest.raises(FileSystemError, match="has no log"):
        log.change([file(1)])
    log.create()
    log.create([file(9)])
    assert log.files() == (), "there was one"
    log.change([file(1), file(2)])
    log.change([file(3)], [file(1)])
    assert log.files() == (file(2), file(3))


def test_a_micro_batch_is_noted_with_its_change(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path), STUCK_NOW)
    assert not log.has_batch(Batch("a", 0))
    log.create()
    log.change([], batch=Batch("a", 0))
    log.change([file(1)], batch=Batch("a", 3))
    assert [log.has_batch(Batch("a", number)) for number in (0, 3, 4)] == [True, True, False]
    assert not log.has_batch(Batch("b", 0))


def test_remote_paths_have_no_letters_that_the_log_writes_otherwise() -> None:
    for root in ("hdfs://host:8020/a lake", "hdfs://host/l#x", "s3://bucket/l?x", "hdfs://host/läke", "hdfs://h/{a}"):
        assert "a lake that is not on a local disk has no" in (place_problem(root) or "")
    for root in ("hdfs://host:8020/data/lake-1_a.b", "file:/a lake#1", "/a {lake}", "s3a://bucket/lake"):
        assert place_problem(root) is None


@pytest.mark.parametrize(
    "root, service, found",
    [
        ("hdfs://name/lake", "10.0.0.1:8020", "hdfs://name:8020/lake"),
        ("hdfs://name:9000/lake", "10.0.0.1:9000", "hdfs://name:9000/lake"),
        ("hdfs://lakes/x", "ha-hdfs:lakes", "hdfs://lakes/x"),
        ("viewfs://cl/x", "None", "viewfs://cl/x"),
        ("file:/lake", "None", "file:/lake"),
    ],
)
def test_a_namenode_is_named_with_its_port(root: str, service: str, found: str) -> None:
    assert with_port(root, service) == found
