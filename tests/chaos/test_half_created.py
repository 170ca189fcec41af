"""What Kafka's brokers leave half created: read from their logs, and moved out of the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.half_created import half_created, set_aside

LOG = """\
[2026-11-24 03:28:11,900] INFO [Broker id=7] Leader k-01-3 starts at leader epoch 0 (state.change.logger)
[2026-11-24 03:28:12,012] ERROR [Broker id=7] Error while processing LeaderAndIsr request correlationId 87 received \
from controller 1001 epoch 14 for partition k-02-0 (state.change.logger)
org.apache.zookeeper.KeeperException$SessionExpiredException: KeeperErrorCode = Session expired for /config/topics/k-02
	at org.apache.zookeeper.KeeperException.create(KeeperException.java:134)
[2026-11-24 03:28:12,013] ERROR [Broker id=7] Error while processing LeaderAndIsr request correlationId 87 received \
from controller 1001 epoch 14 for partition k-02-4 (state.change.logger)
org.apache.kafka.common.errors.KafkaStorageException: Disk error
"""


def test_only_what_an_expired_session_left_is_excused(tmp_path: Path) -> None:
    log = tmp_path / "state-change.log"
    log.write_text(LOG)
    assert half_created({7: log, 6: tmp_path / "none"}) == {(7, "k-02", 0)}


def duplicates(tmp_path: Path, *with_an_id: int) -> tuple[str, list[Path]]:
    paths = [tmp_path / f"logs-{number}" / "k-02-0" for number in (0, 1)]
    for number, path in enumerate(paths):
        path.mkdir(parents=True)
        if number in with_an_id:
            (path / "partition.metadata").write_text("version: 0\ntopic_id: x\n")
    text = f"Duplicate log directories for k-02-0 are found in both {paths[1]} and {paths[0]}. It is likely because"
    return f"java.lang.IllegalStateException: {text} log directory failure happened", paths


def test_the_one_without_an_id_is_moved_out_of_the_log_directory(tmp_path: Path) -> None:
    output, (blank, replica) = duplicates(tmp_path, 1)
    moved = set_aside(output)
    assert moved == tmp_path / "set-aside" / "k-02-0.0"
    assert moved.is_dir()
    assert (blank.exists(), replica.exists()) == (False, True)


@pytest.mark.parametrize("with_an_id", [(), (0, 1)])
def test_nothing_is_moved_where_it_is_not_known_which_is_the_replica(
    tmp_path: Path, with_an_id: tuple[int, ...]
) -> None:
    output, paths = duplicates(tmp_path, *with_an_id)
    assert set_aside(output) is None
    assert all(path.exists() for path in paths)


def test_another_problem_moves_nothing() -> None:
    assert set_aside("java.net.BindException: Address already in use") is None
