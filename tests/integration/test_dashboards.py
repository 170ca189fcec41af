"""Every query of every dashboard has an answer from a real Prometheus that scrapes a live cluster in trouble, and what
`lethe survey` found in it."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Final

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import encode_broker
from tests.fakes.broken_broker import ErringBroker
from tests.fakes.certificates import Authority
from tests.fakes.command_line import Lethe
from tests.fakes.dashboards import DASHBOARDS, expressions
from tests.fakes.prometheus import RealPrometheus, is_installed, serving, until
from tests.fakes.zookeeper_cluster import apply

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not is_installed(), reason="no prometheus here: apt-get install -y prometheus"),
]

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
JOBS: Final = ("lethe-controller", "lethe-broker", "lethe-survey")
LIMIT_S: Final = 240.0
ROUNDS: Final = 1_000
NOBODY: Final = Endpoint("PLAINTEXT", "127.0.0.1", 1)
"""Nothing listens there."""


async def in_trouble(session: ZooKeeperSession, erring: Endpoint) -> None:
    """A broker that answers with errors, one that cannot be reached, and a topic on each of them that is to go."""
    for number, endpoint in ((4, erring), (5, NOBODY)):
        registration = encode_broker(Broker(BrokerId(number), BrokerEpoch(-1), (endpoint,)), timestamp_ms=1)
        await apply(session, Create(paths.broker_id(number), registration, ephemeral=True))
    await create(session, {"erring": ((4,),), "lost": ((5, 1),)})
    await apply(session, *(Create(paths.delete_topic(name), None) for name in ("erring", "lost")))


def with_certificate(directory: Path) -> dict[str, str]:
    """A second listener, with TLS."""
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(Authority().issue().pem_file(directory / "key.pem")),
    }


async def surveyed(cluster: LocalCluster, file: Path) -> None:
    """A survey that finds something: a directory of no topic."""
    ghost = cluster.broker(1).log_dirs[0] / "ghost-0"
    ghost.mkdir()
    (ghost / "00000000000000000000.log").write_bytes(b"x" * 8192)
    directories = [f"--log-dir={number}={root}" for number, roots in cluster.log_dirs.items() for root in roots]
    ran = await Lethe(cluster.zookeeper_connect)("survey", "--textfile", str(file), *directories)
    assert ran.code == 1, ran


async def create(session: ZooKeeperSession, topics: dict[str, tuple[tuple[int, ...], ...]]) -> None:
    plans = [TopicPlan(name, TopicId(uuid.uuid4()), assignment) for name, assignment in topics.items()]
    assert [outcome.problem for outcome in await topic_znodes.create_topics(session, plans)] == [None] * len(plans)


async def come_and_go(session: ZooKeeperSession) -> None:
    """Topics are created and deleted, some each second, until cancelled."""
    for number in range(ROUNDS):
        names = [f"t{number}-{each}" for each in range(3)]
        await create(session, dict.fromkeys(names, ((1, 2, 3), (2, 3, 1))))
        await asyncio.sleep(1.0)
        await apply(session, *(Create(paths.delete_topic(name), None) for name in names))


async def test_every_query_of_every_dashboard_has_series(zookeeper_chroot: str, tmp_path: Path) -> None:
    settings = ClusterSettings(
        controllers=2,
        brokers=3,
        zookeeper_connect=zookeeper_chroot,
        broker_properties={"lethe.fill.bytes": "65536", "replica.catch.up.delay.ms": "200"},
        own_properties={1: with_certificate(tmp_path)},
    )
    rules = {path.name: path.read_text() for path in (DEPLOY / "prometheus" / "alerts").glob("*.yml")}
    asked = {(path.stem, *each) for path in DASHBOARDS for each in expressions(json.loads(path.read_text()))}
    assert len(asked) > 50
    async with (
        LocalCluster(settings) as cluster,
        cluster.session() as session,
        ErringBroker() as erring,
        serving(tmp_path / "lethe.prom") as textfile,
        RealPrometheus(tmp_path / "prometheus", rules, JOBS) as prometheus,
        asyncio.TaskGroup() as tasks,
    ):
        prometheus.scrape("lethe-controller", {each.name: str(each.http_url) for each in cluster.controllers})
        prometheus.scrape("lethe-broker", {each.name: str(each.http_url) for each in cluster.brokers})
        prometheus.scrape("lethe-survey", {"survey-host": textfile})
        work = tasks.create_task(come_and_go(session), name="topics come and go")
        left = sorted(asked)
        # First without trouble: a broker that answers nothing keeps every topic from going.
        await until(lambda: some_are_done(prometheus), LIMIT_S, lambda: "deletions come to their end")
        left = [each for each in left if not has_values(await prometheus.query(each[2]))]
        await surveyed(cluster, tmp_path / "lethe.prom")
        await in_trouble(session, erring.endpoint)

        async def all_have_answered() -> bool:
            left[:] = [each for each in left if not has_values(await prometheus.query(each[2]))]
            return not left

        await until(all_have_answered, LIMIT_S, lambda: "no series for\n" + "\n".join(map(str, left)))
        work.cancel()


async def some_are_done(prometheus: RealPrometheus) -> bool:
    return bool(await prometheus.query('rate(lethe_controller_deletion_phase_seconds_count{phase="done"}[1m]) > 0'))


def has_values(series: list[dict[str, object]]) -> bool:
    """A quantile of nothing is NaN, and so is a mean: that is no answer."""
    values = [each["value"] for each in series]
    return any(isinstance(value, list) and value[1] != "NaN" for value in values)
