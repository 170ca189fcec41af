"""What vanishes from a real directory is noted, and judged by what ZooKeeper said at that moment."""

from __future__ import annotations

import base64
import shutil
import uuid
from pathlib import Path

from tests.chaos.disks import DiskWatch, SeenDirectory, scan, unlawful
from tests.chaos.history import NO_ID, History
from tests.chaos.test_history import X, Y, created, marked, played

SEGMENT = "00000000000000000000.log"


def make(log_dir: Path, name: str = "orders-0", topic_id: uuid.UUID | None = X, size: int = 100) -> Path:
    path = log_dir / name
    path.mkdir(parents=True)
    (path / SEGMENT).write_bytes(bytes(size))
    if topic_id is not None:
        text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
        (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}")
    return path


def seen(tmp_path: Path) -> list[SeenDirectory]:
    return scan({1: [tmp_path / "a"]})


def complaints(watch: DiskWatch, history: History) -> list[str]:
    return unlawful(watch.vanished, history)


def test_directories_are_told_apart_by_state_and_id(tmp_path: Path) -> None:
    tag = "0123456789abcdef" * 2
    for name in ("orders-0", f"orders-1.{tag}-delete", f"orders-2.{tag}-stray", f"or-ders-3.{tag}-future"):
        make(tmp_path / "a", name)
    make(tmp_path / "a", "plain-4", topic_id=None)
    (tmp_path / "a" / "lost+found").mkdir()
    (tmp_path / "a" / "checkpoint-9").write_text("a file")
    found = seen(tmp_path)
    assert sorted((each.topic, each.partition, each.state, each.topic_id) for each in found) == [
        ("or-ders", 3, "future", X),
        ("orders", 0, "", X),
        ("orders", 1, "delete", X),
        ("orders", 2, "stray", X),
        ("plain", 4, "", NO_ID),
    ]
    assert found[0].segments == {SEGMENT: 100}


def test_a_directory_of_a_living_topic_that_goes_is_a_violation(tmp_path: Path) -> None:
    watch = DiskWatch({1: [tmp_path / "a"]}, frozenset({1}))
    path = make(tmp_path / "a")
    watch.compare(seen(tmp_path), 1_500, 1_500)
    shutil.rmtree(path)
    watch.compare(seen(tmp_path), 2_000, 2_000)
    (violation,) = complaints(watch, played(created()))
    assert "orders-0 is gone or renamed on broker 1, while topic orders lived there" in violation


def test_renaming_it_for_deletion_is_one_too_and_bytes_that_get_fewer(tmp_path: Path) -> None:
    watch = DiskWatch({1: [tmp_path / "a"]}, frozenset({1}))
    path = make(tmp_path / "a")
    watch.compare(seen(tmp_path), 1_500, 1_500)
    (path / SEGMENT).write_bytes(bytes(99))
    watch.compare(seen(tmp_path), 2_000, 2_000)
    path.rename(path.with_name(f"orders-0.{'0' * 32}-delete"))
    watch.compare(seen(tmp_path), 2_500, 2_500)
    first, second = complaints(watch, played(created()))
    assert f"lost bytes of ['{SEGMENT}']" in first
    assert "gone or renamed" in second


def test_another_incarnation_in_its_place_is_no_excuse(tmp_path: Path) -> None:
    watch = DiskWatch({1: [tmp_path / "a"]}, frozenset({1}))
    shutil_target = make(tmp_path / "a")
    watch.compare(seen(tmp_path), 1_500, 1_500)
    shutil.rmtree(shutil_target)
    make(tmp_path / "a", topic_id=Y)
    watch.compare(seen(tmp_path), 2_000, 2_000)
    assert len(complaints(watch, played(created()))) == 1


def test_a_marked_topic_may_go_and_a_kafka_follower_may_truncate(tmp_path: Path) -> None:
    watch = DiskWatch({1: [tmp_path / "a"]}, frozenset())
    path = make(tmp_path / "a")
    watch.compare(seen(tmp_path), 1_500, 1_500)
    (path / SEGMENT).write_bytes(b"")
    watch.compare(seen(tmp_path), 1_600, 1_600)
    shutil.rmtree(path)
    watch.compare(seen(tmp_path), 2_500, 2_500)
    assert complaints(watch, played(created(), marked())) == []
    assert len(complaints(watch, played(created()))) == 1


def test_a_directory_of_an_unknown_id_that_goes_is_named(tmp_path: Path) -> None:
    watch = DiskWatch({1: [tmp_path / "a"]}, frozenset({1}))
    path = make(tmp_path / "a", topic_id=Y)
    watch.compare(seen(tmp_path), 1_500, 1_500)
    shutil.rmtree(path)
    watch.compare(seen(tmp_path), 2_000, 2_000)
    assert "ZooKeeper never had topic id" in complaints(watch, played(created()))[0]
