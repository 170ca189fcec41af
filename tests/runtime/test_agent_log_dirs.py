"""The log directories on a real file system: layout, refusals, failures, and death at every point."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lethe.broker.core.agent import step
from lethe.broker.core.effects import (
    AskTopicIds,
    AssignTopicId,
    CreateReplica,
    DirectoryRef,
    DiskOperation,
    Effect,
    FillReplica,
    PerformDisk,
    QuarantineDirectory,
    RenameForDeletion,
)
from lethe.broker.core.inputs import (
    ControlReceived,
    DiskPerformed,
    FoundLogDir,
    InventoryLoaded,
    TopicAbsence,
    TopicIdsReceived,
)
from lethe.broker.core.state import AgentState, Settings
from lethe.broker.runtime.log_dirs import LogDirs, Removed
from lethe.broker.runtime.ownership import CannotStart
from lethe.protocol.kafka.control import Addressed, ControlRequest
from lethe.protocol.kafka.directory_names import deletion_name, stray_name
from lethe.protocol.kafka.disk_formats import decode_checkpoint, encode_checkpoint
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, TopicPartition, topic_id_to_text
from tests.fakes.log_dirs import Died, FaultyDisk
from tests.unit.broker.core.driver import EPOCH, X, Y, become, stop, tombstone

UNIQUE = "0123456789abcdef" * 2
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

Opener = Callable[..., LogDirs]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens log directories under tmp_path, and lets go of all of them at the end."""
    made: list[LogDirs] = []

    def open_(*names: str, fill_bytes: int = 10, disk: FaultyDisk | None = None, broker_id: int = 1) -> LogDirs:
        paths = [tmp_path / name for name in names or ("a",)]
        log_dirs = LogDirs(paths, broker_id=broker_id, fill_bytes=fill_bytes, fill_segment_bytes=4, disk=disk)
        made.append(log_dirs)
        log_dirs.open()
        return log_dirs

    yield open_
    for log_dirs in made:
        log_dirs.close()


def loaded(open_: Opener, *names: str, **more: object) -> LogDirs:
    log_dirs = open_(*names, **more)
    log_dirs.load("cluster-1")
    return log_dirs


def one(log_dirs: LogDirs, operation: DiskOperation) -> str | None:
    (outcome,) = log_dirs.perform([operation])
    return outcome.error


def created_and_filled(log_dir: Path) -> list[DiskOperation]:
    """What a leader's new replica takes."""
    return [CreateReplica(str(log_dir), T0, X), FillReplica(str(log_dir), T0, X)]


# --- layout -------------------------------------------------------------------------------------------------------


def test_a_new_replica_in_kafkas_layout(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    made, outcome = log_dirs.perform(created_and_filled(tmp_path / "a"))
    directory = tmp_path / "a" / "t-0"
    assert sorted(path.name for path in directory.iterdir()) == [
        f"{base:020d}{suffix}" for base in (0, 1000, 2000) for suffix in (".index", ".log", ".timeindex")
    ] + ["leader-epoch-checkpoint", "partition.metadata"]
    assert (directory / "partition.metadata").read_text() == f"version: 0\ntopic_id: {topic_id_to_text(X)}"
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    logs = sorted(directory.glob("*.log"))
    assert [path.stat().st_size for path in logs] == [4, 4, 2]
    assert outcome.files == 10
    assert made.files == 0
    assert made.size_bytes + outcome.size_bytes == sum(path.stat().st_size for path in directory.iterdir())


def test_a_replica_is_made_empty_and_filled_once(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    here, directory = str(tmp_path / "a"), tmp_path / "a" / "t-0"
    assert one(log_dirs, CreateReplica(here, T0, X)) is None
    assert [path.name for path in directory.iterdir()] == ["partition.metadata"]
    assert "another process has removed it" in (one(log_dirs, FillReplica(here, T1, X)) or "")
    assert "is not the incarnation" in (one(log_dirs, FillReplica(here, T0, Y)) or "")
    assert one(log_dirs, FillReplica(here, T0, X)) is None
    assert "holds 10 files already" in (one(log_dirs, FillReplica(here, T0, X)) or "")


def test_meta_properties_and_lock(opened: Opener, tmp_path: Path) -> None:
    loaded(opened)
    assert (tmp_path / "a" / "meta.properties").read_text() == "version=0\nbroker.id=1\ncluster.id=cluster-1\n"
    assert (tmp_path / "a" / ".lock").exists()


def test_checkpoints_follow_creation_with_the_tick_and_deletion_at_once(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    here = str(tmp_path / "a")
    recovery, watermark = tmp_path / "a/recovery-point-offset-checkpoint", tmp_path / "a/replication-offset-checkpoint"
    log_dirs.perform([CreateReplica(here, T0, X), CreateReplica(here, T1, X), FillReplica(here, T0, X)])
    assert not recovery.exists()
    assert log_dirs.write_checkpoints() == {}
    assert decode_checkpoint(recovery.read_bytes()) == {T0: 3000, T1: 0}
    log_dirs.perform([RenameForDeletion(here, T0, X, deletion_name(T0, UNIQUE))])
    assert decode_checkpoint(recovery.read_bytes()) == {T1: 0}
    assert decode_checkpoint(watermark.read_bytes()) == {T0: 3000, T1: 0}
    log_dirs.write_checkpoints()
    assert decode_checkpoint(watermark.read_bytes()) == {T1: 0}


def test_entries_that_kafka_left_in_its_checkpoints_are_kept(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    start = tmp_path / "a" / "log-start-offset-checkpoint"
    start.write_bytes(encode_checkpoint([(T0, 5), (T1, 6)]))
    (tmp_path / "a" / "t-0").mkdir()
    log_dirs = loaded(opened)
    log_dirs.perform([RenameForDeletion(str(tmp_path / "a"), T0, None, deletion_name(T0, UNIQUE))])
    assert decode_checkpoint(start.read_bytes()) == {T1: 6}


def test_a_checkpoint_file_that_cannot_be_understood_is_left_alone(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    recovery = tmp_path / "a" / "recovery-point-offset-checkpoint"
    recovery.write_text("0\n7\nt 0 5\n")
    log_dirs = loaded(opened)
    log_dirs.perform([CreateReplica(str(tmp_path / "a"), T0, X)])
    log_dirs.write_checkpoints()
    assert recovery.read_text() == "0\n7\nt 0 5\n"


def test_the_inventory_finds_everything_and_keeps_it_apart(opened: Opener, tmp_path: Path) -> None:
    here = tmp_path / "a"
    for name in ("t-0", "u-1", deletion_name(T0, UNIQUE), stray_name(T1, UNIQUE), "photos", "w-7"):
        (here / name).mkdir(parents=True)
        (here / name / "file").write_bytes(b"12345")
    (here / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_to_text(X)}\n")
    (here / "w-7" / "partition.metadata").write_text("nonsense")
    (here / "t-0" / "00000000000000000000.log").write_bytes(b"123")
    deleted = here / deletion_name(T0, UNIQUE)
    (deleted / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_to_text(X)}\n")
    broken = here / deletion_name(T1, UNIQUE)
    (broken / "partition.metadata").mkdir(parents=True)
    (here / "v-0").symlink_to("/etc")
    (here / "x-0").write_text("a file")
    (here / "README").write_text("a file")
    (found,) = opened().load("cluster-1")
    replicas = {str(r.topic_partition): (r.topic_id, r.id_readable, r.files, r.segment_bytes) for r in found.replicas}
    assert replicas == {"t-0": (X, True, 2, 3), "u-1": (None, True, 1, 0), "w-7": (None, False, 1, 0)}
    assert [(d.name, d.topic_id) for d in found.deleted] == [(deleted.name, X), (broken.name, None)]
    assert [d.name for d in found.strays] == [stray_name(T1, UNIQUE)]
    assert [d.name for d in found.unknown] == ["photos", "v-0", "x-0"]


@pytest.mark.parametrize("content", [None, b"", b"version: 0\ntop"])
def test_an_id_whose_writing_was_cut_off_counts_as_none_while_nothing_is_stored(
    opened: Opener, tmp_path: Path, content: bytes | None
) -> None:
    (tmp_path / "a" / "t-0").mkdir(parents=True)
    name = "partition.metadata.tmp" if content is None else "partition.metadata"
    (tmp_path / "a" / "t-0" / name).write_bytes(content or b"x")
    log_dirs = opened()
    (found,) = log_dirs.load("cluster-1")
    (replica,) = found.replicas
    assert (replica.topic_id, replica.id_readable, replica.files) == (None, True, 0)
    assert one(log_dirs, AssignTopicId(str(tmp_path / "a"), T0, X)) is None
    assert topic_id_to_text(X) in (tmp_path / "a" / "t-0" / "partition.metadata").read_text()


def test_a_large_round_is_synced_at_once(opened: Opener, tmp_path: Path) -> None:
    disk = FaultyDisk()
    log_dirs = loaded(opened, disk=disk)
    disk.calls.clear()
    here, partitions = str(tmp_path / "a"), [TopicPartition("t", n) for n in range(40)]
    log_dirs.perform([make(here, each, X) for each in partitions for make in (CreateReplica, FillReplica)])
    called = [call for call, _ in disk.calls]
    assert called.count("sync_file_system") == 1
    assert "sync_file" not in called
    assert called.index("sync_file_system") < called.index("allocate"), "ids are on disk before bytes"


def test_a_small_round_is_synced_file_by_file(opened: Opener, tmp_path: Path) -> None:
    disk = FaultyDisk()
    log_dirs = loaded(opened, disk=disk)
    disk.calls.clear()
    log_dirs.perform(created_and_filled(tmp_path / "a"))
    called = [call for call, _ in disk.calls]
    assert called.index("sync_file") < called.index("allocate")


def test_a_rename_is_on_disk_before_it_is_acknowledged(opened: Opener, tmp_path: Path) -> None:
    disk = FaultyDisk()
    log_dirs = loaded(opened, disk=disk)
    log_dirs.perform([CreateReplica(str(tmp_path / "a"), T0, X)])
    disk.calls.clear()
    log_dirs.perform([RenameForDeletion(str(tmp_path / "a"), T0, X, deletion_name(T0, UNIQUE))])
    called = [call for call, _ in disk.calls]
    assert called.index("rename") < called.index("sync_directory")


# --- who may use it -----------------------------------------------------------------------------------------------


def test_a_second_agent_is_kept_out(opened: Opener) -> None:
    loaded(opened)
    with pytest.raises(CannotStart, match="another process is using the log directory"):
        opened()


def test_after_closing_the_directory_is_free(opened: Opener) -> None:
    loaded(opened).close()
    loaded(opened)


def test_a_kafka_broker_is_kept_out(opened: Opener, tmp_path: Path) -> None:
    """Kafka takes a POSIX record lock; a child process stands for it."""
    loaded(opened)
    child = os.fork()
    if child == 0:
        file = os.open(tmp_path / "a" / ".lock", os.O_RDWR)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "meta,expected",
    [
        ("version=0\nbroker.id=2\ncluster.id=cluster-1\n", r"belongs to broker 2.*set broker\.id=2"),
        ("version=0\nbroker.id=1\ncluster.id=other\n", "belongs to cluster other"),
        ("version=1\nnode.id=1\ncluster.id=cluster-1\n", "not made by a ZooKeeper-mode broker"),
        ("", "version is ''"),
        ("version=0\nbroker.id=x\n", "broker.id is 'x'"),
    ],
)
def test_a_directory_of_somebody_else_is_refused(opened: Opener, tmp_path: Path, meta: str, expected: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "meta.properties").write_text(meta)
    with pytest.raises(CannotStart, match=expected):
        loaded(opened)
    assert (tmp_path / "a" / "meta.properties").read_text() == meta


def test_at_the_wrong_cluster_no_directory_is_marked(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=cluster-1\n")
    log_dirs = opened("new", "old")
    with pytest.raises(CannotStart, match="belongs to cluster cluster-1"):
        log_dirs.load("cluster-2")
    assert not (tmp_path / "new" / "meta.properties").exists()


def test_what_newer_releases_write_into_meta_properties_is_kept(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    meta = tmp_path / "a" / "meta.properties"
    meta.write_text("#\n#Mon\nbroker.id=1\ndirectory.id=abc\nversion=0\n")
    loaded(opened)
    assert meta.read_text() == "version=0\nbroker.id=1\ncluster.id=cluster-1\ndirectory.id=abc\n"


def test_kafkas_mark_of_a_clean_shutdown_is_removed(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".kafka_cleanshutdown").write_text("{}")
    loaded(opened)
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()


# --- what is refused ----------------------------------------------------------------------------------------------


def test_a_link_in_the_place_of_a_replica_is_never_followed(opened: Opener, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    log_dirs = loaded(opened)
    here = str(tmp_path / "a")
    (tmp_path / "a" / "t-0").symlink_to(outside)
    for operation in (
        CreateReplica(here, T0, X),
        AssignTopicId(here, T0, X),
        RenameForDeletion(here, T0, None, deletion_name(T0, UNIQUE)),
        QuarantineDirectory(here, T0, stray_name(T0, UNIQUE)),
    ):
        (outcome,) = log_dirs.perform([operation])
        assert outcome.error is not None
        assert not outcome.log_dir_failed
    (tmp_path / "a" / deletion_name(T1, UNIQUE)).symlink_to(outside)
    removed = log_dirs.remove(DirectoryRef(here, deletion_name(T1, UNIQUE)), 100)
    assert removed.error is not None
    assert [path.name for path in outside.iterdir()] == ["precious"]


def test_a_link_inside_a_deleted_replica_is_removed_and_not_followed(opened: Opener, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    log_dirs = loaded(opened)
    name = deletion_name(T0, UNIQUE)
    inside = tmp_path / "a" / name / "nested"
    inside.mkdir(parents=True)
    (inside / "link").symlink_to(outside)
    (inside / "hard").hardlink_to(outside / "precious")
    (inside / "file").write_bytes(b"123")
    removed = log_dirs.remove(DirectoryRef(str(tmp_path / "a"), name), 100)
    assert (removed.finished, removed.size_bytes) == (True, 3), "a hard link frees nothing"
    assert not (tmp_path / "a" / name).exists()
    assert (outside / "precious").read_text() == "x"


@pytest.mark.parametrize("name", ["t-0", "photos", "..", ".", "", "a/b", stray_name(T0, UNIQUE), "meta.properties"])
def test_only_what_was_renamed_for_deletion_is_removed(opened: Opener, tmp_path: Path, name: str) -> None:
    log_dirs = loaded(opened)
    for existing in ("t-0", "photos", stray_name(T0, UNIQUE)):
        (tmp_path / "a" / existing).mkdir(exist_ok=True)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    removed = log_dirs.remove(DirectoryRef(str(tmp_path / "a"), name), 100)
    assert removed.error is not None
    assert not removed.log_dir_failed
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_new_names_must_say_what_they_are_for(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    here = str(tmp_path / "a")
    assert one(log_dirs, CreateReplica(here, T0, X)) is None
    for name in ("../t", "t-1", "t-0-delete", stray_name(T0, UNIQUE)):
        assert one(log_dirs, RenameForDeletion(here, T0, X, name)) is not None
    assert (tmp_path / "a" / "t-0").is_dir()


def test_a_directory_that_is_not_the_incarnation_that_was_known_is_not_renamed(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    here = str(tmp_path / "a")
    log_dirs.perform([CreateReplica(here, T0, X)])
    error = one(log_dirs, RenameForDeletion(here, T0, Y, deletion_name(T0, UNIQUE)))
    assert "not the incarnation" in (error or "")
    assert (tmp_path / "a" / "t-0").is_dir()


def test_a_directory_that_holds_something_is_never_taken_over(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    (tmp_path / "a" / "t-0").mkdir()
    (tmp_path / "a" / "t-0" / "00000000000000000000.log").write_text("x")
    assert "holds 1 file" in (one(log_dirs, CreateReplica(str(tmp_path / "a"), T0, X)) or "")
    assert not (tmp_path / "a" / "t-0" / "partition.metadata").exists()


def test_a_log_directory_that_is_none_of_ours(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    assert one(log_dirs, CreateReplica(str(tmp_path / "b"), T0, X)) is not None
    assert not (tmp_path / "b").exists()


# --- failures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EACCES])
def test_an_io_error_takes_its_log_directory_offline(opened: Opener, tmp_path: Path, number: int) -> None:
    disk = FaultyDisk()
    log_dirs = loaded(opened, "a", "b", disk=disk)
    disk.fail_with(number, on="mkdir")
    (outcome,) = log_dirs.perform([CreateReplica(str(tmp_path / "a"), T0, X)])
    assert outcome.log_dir_failed
    assert errno.errorcode[number] in (outcome.error or "")
    disk.heal()
    first, second = log_dirs.perform(
        [CreateReplica(str(tmp_path / "a"), T1, X), CreateReplica(str(tmp_path / "b"), T1, X)]
    )
    assert first.log_dir_failed, "until the restart"
    assert second.error is None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_process_out_of_resources_blames_no_directory(opened: Opener, tmp_path: Path, number: int) -> None:
    disk = FaultyDisk()
    log_dirs = loaded(opened, disk=disk)
    disk.fail_with(number, on="mkdir")
    (outcome,) = log_dirs.perform([CreateReplica(str(tmp_path / "a"), T0, X)])
    assert outcome.error is not None
    assert not outcome.log_dir_failed
    disk.heal()
    assert one(log_dirs, CreateReplica(str(tmp_path / "a"), T0, X)) is None


def test_a_log_directory_that_is_a_file_is_offline_from_the_start(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    first, second = opened("a", "b").load("cluster-1")
    assert first.error is not None
    assert second.error is None


def test_a_log_directory_that_is_replaced_while_we_run_is_noticed(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    (tmp_path / "a").mkdir()
    assert list(log_dirs.write_checkpoints()) == [str(tmp_path / "a")]
    (outcome,) = log_dirs.perform([CreateReplica(str(tmp_path / "a"), T0, X)])
    assert outcome.log_dir_failed
    assert list((tmp_path / "a").iterdir()) == []


def test_a_log_directory_that_vanishes_is_no_finished_removal(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    removed = log_dirs.remove(DirectoryRef(str(tmp_path / "a"), deletion_name(T0, UNIQUE)), 10)
    assert not removed.finished
    assert removed.error is not None


def test_a_directory_that_somebody_else_removed_is_deleted_enough(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    here = str(tmp_path / "a")
    assert one(log_dirs, RenameForDeletion(here, T0, X, deletion_name(T0, UNIQUE))) is None
    assert log_dirs.remove(DirectoryRef(here, deletion_name(T0, UNIQUE)), 10).finished


def test_removal_goes_in_slices(opened: Opener, tmp_path: Path) -> None:
    log_dirs = loaded(opened)
    here = str(tmp_path / "a")
    log_dirs.perform(created_and_filled(tmp_path / "a"))
    name = deletion_name(T0, UNIQUE)
    log_dirs.perform([RenameForDeletion(here, T0, X, name)])
    size_bytes = sum(path.stat().st_size for path in (tmp_path / "a" / name).iterdir())
    slices: list[Removed] = []
    while not slices or not slices[-1].finished:
        slices.append(log_dirs.remove(DirectoryRef(here, name), 4))
    assert [s.files for s in slices] == [4, 4, 3]
    assert sum(s.size_bytes for s in slices) == size_bytes


# --- death at every point -----------------------------------------------------------------------------------------

SCRIPT: tuple[ControlRequest, ...] = (
    become("t", X, partitions=(0, 1), is_new=True),
    become("u", None, is_new=True),
    tombstone("t", X, partitions=(0, 1)),
    stop("t", partitions=(0, 1), delete=False),
    stop("t", partitions=(0, 1)),
    become("t", Y, partitions=(0, 1), is_new=True),
    stop("u"),
)


class Run:
    """One process: a core and its log directories, driven through the script by hand."""

    def __init__(self, root: Path, disk: FaultyDisk, seed: str) -> None:
        paths = [root / "a", root / "b"]
        self.log_dirs = LogDirs(paths, broker_id=1, fill_bytes=3, fill_segment_bytes=2, disk=disk)
        self.state = AgentState(Settings(BrokerId(1), 0, seed))
        self.state.confirmed_epoch, self.state.confirmed_controller = ControllerEpoch(5), BrokerId(9)
        self.acknowledged: list[ControlRequest] = []

    def start(self) -> tuple[FoundLogDir, ...]:
        self.log_dirs.open()
        found = self.log_dirs.load("cluster-1")
        self._perform(step(self.state, InventoryLoaded(found), 0))
        return found

    def play(self, requests: tuple[ControlRequest, ...]) -> None:
        for token, request in enumerate(requests):
            self._perform(step(self.state, ControlReceived(token, Addressed(request, EPOCH)), 0))
            self.acknowledged.append(request)

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, PerformDisk):
                outcomes = self.log_dirs.perform(effect.operations)
                assert not any(outcome.error for outcome in outcomes), outcomes
                self._perform(step(self.state, DiskPerformed(outcomes), 0))
            elif isinstance(effect, AskTopicIds):
                answers = tuple(X if topic == "t" else TopicAbsence.NO_ID for topic in effect.topics)
                self._perform(step(self.state, TopicIdsReceived(answers), 0))


def _whose(root: Path) -> dict[str, set[str]]:
    """Name of each replica directory that holds segments → the ids that its partition.metadata names."""
    found: dict[str, set[str]] = {}
    for directory in root.glob("*/*-[0-9]*"):
        if any(directory.glob("*.log")):
            metadata = directory / "partition.metadata"
            found.setdefault(directory.name, set()).add(metadata.read_text() if metadata.exists() else "none")
    return found


def _die_at(root: Path, count: int) -> bool:
    """Play the script until the process dies before call `count`; check the disk; play it again. False at the end."""
    disk = FaultyDisk()
    run = Run(root, disk, "first")
    run.start()
    disk.die_at(count)
    died = False
    try:
        run.play(SCRIPT)
    except Died:
        died = True
    disk.heal()
    for opened in (*run.log_dirs._open.values(), *run.log_dirs._lost):
        opened.ownership.release()
    names = _whose(root)
    for name, ids in names.items():
        topic = name.split("-")[0]
        assert len(ids) == 1
        assert ids == {"none"} if topic == "u" else ids != {"none"}, "an id is there before the first byte"
    if tuple(run.acknowledged) == SCRIPT[:5]:
        assert not any(topic_id_to_text(X) in text for n, ids in names.items() if "." not in n for text in ids)
    again = Run(root, FaultyDisk(), "second")
    again.start()
    again.play(tuple(r for r in SCRIPT if r not in run.acknowledged))
    again.log_dirs.close()
    living = [path for path in root.glob("*/*-[0-9]*") if "." not in path.name]
    assert sorted(path.name for path in living) == ["t-0", "t-1"]
    assert all(topic_id_to_text(Y) in (path / "partition.metadata").read_text() for path in living)
    return died


def test_death_before_every_call_loses_nothing_and_mixes_nothing_up(tmp_path: Path) -> None:
    count = 0
    while _die_at(tmp_path / str(count), count):
        count += 1
    assert count > 60
