"""`lethe survey --out` on real ZooKeeper and agents: the files say what was there, also when every broker is down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.journal import time_from_text
from lethe.protocol.survey_records import DIRECTORIES, FILES, MANIFEST, METADATA, ROW_FILES, ZNODES, row_problems
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.survey.keep import save_survey
from lethe.survey.records import rows_of
from lethe.survey.take import take_survey
from tests.fakes.command_line import Lethe
from tests.fakes.zookeeper_cluster import apply

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]

TAG = "00112233445566778899aabbccddeeff"
FILL_BYTES = 5_000
SETTINGS = {"lethe.fill.bytes": str(FILL_BYTES)}


def rows(kept: Path, name: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (kept / name).read_bytes().splitlines()]


def well_formed(kept: Path) -> Iterator[dict[str, Any]]:
    """Every row of every file, once it is known to have the file's form."""
    assert sorted(path.name for path in kept.iterdir()) == sorted(file.name for file in FILES)
    (manifest,) = rows(kept, MANIFEST.name)
    assert row_problems(MANIFEST, manifest) == []
    for file in ROW_FILES:
        found = rows(kept, file.name)
        assert [problem for row in found for problem in row_problems(file, row)] == []
        assert manifest["rows"][file.name] == len(found)
        assert all((row["survey_id"], row["taken_at"]) == (kept.name, manifest["taken_at"]) for row in found)
        yield from found


async def _topic_everywhere(lethe: Lethe, cluster: LocalCluster) -> None:
    first, second = (broker.id for broker in cluster.brokers)
    assignment = f"{first}:{second},{second}:{first}"
    assert (await lethe("topics", "create", "--topic", "orders", "--replica-assignment", assignment)).code == 0
    async with asyncio.timeout(120):
        while True:
            replicas = [path for dirs in cluster.log_dirs.values() for each in dirs for path in each.glob("orders-*")]
            if len(replicas) == 4 and all(map(_is_filled, replicas)):
                return
            await asyncio.sleep(0.05)


def _is_filled(replica: Path) -> bool:
    """To the last file of the last segment."""
    logs, last = list(replica.glob("*.log")), list(replica.glob("*.timeindex"))
    return len(logs) == len(last) and sum(path.stat().st_size for path in logs) == FILL_BYTES


async def test_rows_are_what_was_seen(zookeeper_chroot: str, tmp_path: Path) -> None:
    before_ms = time.time_ns() // 1_000_000
    settings = ClusterSettings(controllers=1, brokers=2, zookeeper_connect=zookeeper_chroot, broker_properties=SETTINGS)
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        lethe = Lethe(cluster.zookeeper_connect)
        await _topic_everywhere(lethe, cluster)
        stray = cluster.broker(1).log_dirs[0] / f"odd-3.{TAG}-stray"
        stray.mkdir()
        await cluster.controllers[0].kill()
        await apply(session, Create(paths.delete_topic("orders"), None))

        survey = await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs, with_times=True)
        kept = await asyncio.to_thread(save_survey, survey, tmp_path)
        assert [rows(kept, file.name) for file in ROW_FILES] == [list(rows_of(file, survey)) for file in ROW_FILES]
        assert len(list(well_formed(kept))) > 10

        znodes = {(row["kind"], row["partition"]): row for row in rows(kept, ZNODES.name) if row["topic"] == "orders"}
        for kind in ("topic", "marker"):
            assert before_ms - 60_000 < time_from_text(znodes[kind, None]["created_at"]) < time.time() * 1000 + 60_000
        assert znodes["marker", None]["created_at"] > znodes["topic", None]["created_at"]
        assert (znodes["partition", 1]["replicas"], znodes["partition", 1]["has_state_znode"]) == ([2, 1], True)
        caches = [row for row in rows(kept, METADATA.name) if row["topic"] == "orders"]
        assert [(row["broker"], row["topic_id"], row["partitions"]) for row in caches] == [
            (broker, znodes["topic", None]["topic_id"], [0, 1]) for broker in (1, 2)
        ]
        replicas = [row for row in rows(kept, DIRECTORIES.name) if row["topic"] == "orders"]
        assert len(replicas) == 4
        for row in replicas:
            directory = Path(row["log_dir"]) / row["directory"]
            assert row["topic_id"] == znodes["topic", None]["topic_id"]
            assert row["segment_bytes"] == sum(path.stat().st_size for path in directory.glob("*.log")) > 0
            assert row["size_bytes"] == sum(path.stat().st_size for path in directory.iterdir())
            assert row["files"] == len(list(directory.iterdir()))
            newest_ns = max(path.stat().st_mtime_ns for path in directory.glob("*.log"))
            assert time_from_text(row["newest_segment_write"]) == newest_ns // 1_000_000
        (odd,) = [row for row in rows(kept, DIRECTORIES.name) if row["kind"] == "stray"]
        assert (odd["broker"], odd["topic"], odd["partition"], odd["segment_bytes"]) == (1, "odd", 3, 0)


async def test_a_host_whose_brokers_are_down_is_surveyed_by_its_directories(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=2,
        zookeeper_connect=zookeeper_chroot,
        session_timeout_ms=60_000,
        broker_properties=SETTINGS,
    )
    async with LocalCluster(settings) as cluster:
        lethe = Lethe(cluster.zookeeper_connect)
        await _topic_everywhere(lethe, cluster)
        here = ",".join(str(path) for dirs in cluster.log_dirs.values() for path in dirs)
        linked = tmp_path / "linked"
        linked.symlink_to(cluster.broker(1).log_dirs[0])

        twice = await lethe("survey", "--json", "--out", str(tmp_path / "kept"), "--log-dirs", str(linked))
        found = rows(Path(twice.data["kept"]), DIRECTORIES.name)
        assert sum(row["topic"] == "orders" for row in found) == 4
        assert {row["source"] for row in found} == {"local"}

        for broker in cluster.brokers:
            await broker.stop()
        down = await lethe("survey", "--json", "--out", str(tmp_path / "kept"), "--log-dirs", here)
        assert (down.code, down.data["complete"], down.data["counts"]["disk"]["left_over"]) == (0, True, 0)
        kept = Path(down.data["kept"])
        every = list(well_formed(kept))
        assert [row for row in every if row["kind"] == "broker"] == []
        replicas = [row for row in rows(kept, DIRECTORIES.name) if row["kind"] == "replica"]
        assert sorted((row["broker"], row["directory"]) for row in replicas) == [
            (broker, f"orders-{partition}") for broker in (1, 2) for partition in (0, 1)
        ]
        assert len(list((tmp_path / "kept").iterdir())) == 2

        (tmp_path / "file").write_text("")
        refused = await lethe("survey", "--out", str(tmp_path / "file"))
        assert refused.code == 2
        assert "is no directory" in refused.err
        strange = await lethe("survey", "--log-dirs", str(tmp_path))
        assert strange.code == 2
        assert "no meta.properties" in strange.err
