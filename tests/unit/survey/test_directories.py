"""What is read from a log directory of this machine, and what its names mean."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.kafka.disk_formats import PARTITION_METADATA, encode_partition_metadata
from lethe.protocol.vocabulary import BrokerId, TopicId, TopicPartition
from lethe.survey.directories import read_log_dir, with_answers
from lethe.survey.views import LogDirSource, LogDirView

TOPIC_ID = TopicId(uuid.UUID(int=99))
TAG = "0123456789abcdef0123456789abcdef"


def test_a_log_directory_is_read_with_sizes_ids_and_times(tmp_path: Path) -> None:
    replica = tmp_path / "orders-0"
    (replica / "deeper").mkdir(parents=True)
    (replica / "0.log").write_bytes(b"x" * 1000)
    (replica / "deeper" / "0.index").write_bytes(b"x" * 24)
    (replica / PARTITION_METADATA).write_bytes(encode_partition_metadata(TOPIC_ID))
    os.utime(replica / "0.log", (5_000_000_000, 5_000_000_000))
    (tmp_path / f"gone-1.{TAG}-delete").mkdir()
    (tmp_path / "meta.properties").write_text("version=0\n")
    view = read_log_dir(BrokerId(4), tmp_path)
    assert (view.broker, view.path, view.problem) == (4, str(tmp_path), None)
    gone, orders = view.directories
    assert (gone.kind, gone.topic_partition, gone.files, gone.topic_id) == (
        DirectoryKind.DELETED,
        TopicPartition("gone", 1),
        0,
        None,
    )
    metadata_bytes = len(encode_partition_metadata(TOPIC_ID))
    assert (orders.size_bytes, orders.files, orders.topic_id) == (1024 + metadata_bytes, 3, TOPIC_ID)
    assert orders.newest_mtime_ms == 5_000_000_000_000
    assert (orders.segment_bytes, orders.newest_segment_mtime_ms) == (1000, 5_000_000_000_000)
    assert (gone.segment_bytes, gone.newest_segment_mtime_ms) == (0, None)


def test_segments_are_files_of_that_name_in_the_directory_itself(tmp_path: Path) -> None:
    replica = tmp_path / "orders-0"
    (replica / "deeper.log").mkdir(parents=True)
    for name, size, newest_s in (("0.log", 0, 10), ("7.log", 5, 20), ("7.index", 9, 30), ("0.log.deleted", 3, 40)):
        (replica / name).write_bytes(b"x" * size)
        os.utime(replica / name, (newest_s, newest_s))
    (replica / "deeper.log" / "1.log").write_bytes(b"x" * 100)
    (replica / "9.log").symlink_to(replica / "7.index")
    (orders,) = read_log_dir(BrokerId(4), tmp_path).directories
    assert (orders.segment_bytes, orders.newest_segment_mtime_ms) == (5, 20_000)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(b"x" * 5000)
    (outside / PARTITION_METADATA).write_bytes(encode_partition_metadata(TOPIC_ID))
    log_dir = tmp_path / "logs"
    (log_dir / "orders-0").mkdir(parents=True)
    (log_dir / "orders-0" / "0.log").symlink_to(outside / "big")
    (log_dir / "orders-0" / PARTITION_METADATA).symlink_to(outside / PARTITION_METADATA)
    view = read_log_dir(BrokerId(1), log_dir)
    (orders,) = view.directories
    assert (orders.name, orders.topic_id) == ("orders-0", None)
    assert orders.size_bytes < 5000
    assert orders.problem is not None


def test_a_replica_behind_a_link_is_there_and_was_not_seen(tmp_path: Path) -> None:
    outside, log_dir = tmp_path / "outside", tmp_path / "logs"
    (outside / "orders-0").mkdir(parents=True)
    (outside / "orders-0" / "0.log").write_bytes(b"x" * 5000)
    (log_dir / "bills-0").mkdir(parents=True)
    (log_dir / "bills-0" / "0.log").symlink_to(outside / "orders-0" / "0.log")
    (log_dir / "orders-0").symlink_to(outside / "orders-0")
    (log_dir / "lost+found").symlink_to(outside)
    (log_dir / "recovery-point-offset-checkpoint").symlink_to(outside)
    view = read_log_dir(BrokerId(1), log_dir)
    bills, orders = view.directories
    assert (orders.topic_partition, orders.size_bytes) == (TopicPartition("orders", 0), 0)
    assert (bills.segment_bytes, bills.newest_segment_mtime_ms) == (0, None)
    assert view.problem == (
        "bills-0: a segment of it: it is a symbolic link, which is not followed; "
        "orders-0: it is a symbolic link, which is not followed"
    )
    assert [found.name for found in read_log_dir(BrokerId(1), log_dir, {"orders"}).directories] == ["orders-0"]


def test_what_cannot_be_read_is_a_problem_and_not_an_exception(tmp_path: Path) -> None:
    missing = read_log_dir(BrokerId(1), tmp_path / "missing")
    assert (missing.directories, missing.problem) == ((), "No such file or directory")
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / PARTITION_METADATA).write_bytes(b"version: 1\ntopic_id: ???")
    view = read_log_dir(BrokerId(1), tmp_path)
    assert view.problem is not None
    assert "orders-0: partition.metadata" in view.problem
    assert view.directories[0].topic_id is None


def test_only_what_is_of_the_wanted_topics_is_read(tmp_path: Path) -> None:
    long = "t" * 240
    mine = ["orders-0", f"orders-1.{TAG}-delete", f"orders-2.{TAG}-stray", f"orders-3.{TAG}-future"]
    cut = f"{'t' * 213}-7.{TAG}-delete"
    others = [
        "orders-archive-0",
        f"order-1.{TAG}-delete",
        "nothing of kafka's",
        f"{'t' * 213}-7",
        f"{'t' * 200}-7.{TAG}-delete",
    ]
    for name in (*mine, cut, *others):
        (tmp_path / name).mkdir()
    found = read_log_dir(BrokerId(1), tmp_path, {"orders", long})
    assert [directory.name for directory in found.directories] == sorted([*mine, cut])


def test_a_brokers_answer_completes_what_was_read_here(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    readable, missing = read_log_dir(BrokerId(1), tmp_path), read_log_dir(BrokerId(1), tmp_path / "missing")
    lists = [
        LogDirView(BrokerId(1), view.path, LogDirSource.BROKER, readable.directories) for view in (readable, missing)
    ]
    elsewhere = LogDirView(BrokerId(2), str(tmp_path), LogDirSource.BROKER)
    first, second, *others = with_answers([readable, missing], [*lists, elsewhere])
    assert (first, others) == (readable, [elsewhere])
    assert (second.directories, second.problem) == (readable.directories, missing.problem)
    failed = LogDirView(BrokerId(1), str(tmp_path), LogDirSource.BROKER, problem="it has failed", has_failed=True)
    (merged,) = with_answers([readable], [failed])
    assert (merged.directories, merged.problem, merged.has_failed) == (readable.directories, "it has failed", True)
