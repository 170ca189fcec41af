"""Each alert of deploy/prometheus made to fire once, by its cause, on a live cluster that a real Prometheus scrapes.

Minutes are made seconds: what is waited for before an alert fires, and thresholds where the table below says so. With
LETHE_ALERTS=FILE what was done and what the alerts said is kept as JSON; `make alerts` keeps docs/alerts-fired.json.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.daemons import ControllerDaemon
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.security.scram import ScramMechanism
from lethe.protocol.vocabulary import (
    GROUP_METADATA_TOPIC,
    Broker,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    SecurityProtocol,
    TopicId,
)
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, Exists, Present
from lethe.protocol.zookeeper.znodes import ControllerZnode, encode_broker, encode_controller
from tests.fakes.certificates import DAY, Authority
from tests.fakes.command_line import Lethe, Ran
from tests.fakes.haunting import drop, haunt
from tests.fakes.prometheus import RealPrometheus, is_installed, serving, until
from tests.fakes.secure_broker import SecureBroker, scram
from tests.fakes.zookeeper_cluster import apply

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not is_installed(), reason="no prometheus here: apt-get install -y prometheus"),
]

RULES: Final = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts"
JOBS: Final = ("lethe-controller", "lethe-broker", "lethe-survey")
UNPROVOKED: Final = frozenset({"LetheControllerFault"})
"""Alerts whose only causes are bugs."""
LIMIT_S: Final = 90.0
SESSION_MS: Final = 15_000
PAUSE_S: Final = 9.0
TOMBSTONE_TIMEOUT_MS: Final = 1_000
TRIES: Final = 12
SHORTER: Final = {
    "(lethe_controller_oldest_deletion_seconds[5m])) > 900": "(lethe_controller_oldest_deletion_seconds[5s])) > 3",
    "(lethe_controller_deletions_paused[5m])": "(lethe_controller_deletions_paused[5s])",
    "lethe_controller_event_queue_oldest_seconds > 60": "lethe_controller_event_queue_oldest_seconds > 1",
    "lethe_broker_channel_failing_seconds > 60": "lethe_broker_channel_failing_seconds > 3",
    "[14d])) > 6 * 3600": "[14d])) > 8",
    "[30m:15s]": "[30m:1s]",
    "[1h:30s]": "[1h:1s]",
}
NOBODY: Final = Endpoint("PLAINTEXT", "127.0.0.1", 1)
"""Nothing listens there."""
SASL_ONLY: Final = Endpoint("SASL", "127.0.0.1", 1, SecurityProtocol.SASL_PLAINTEXT)
SECURED: Final = "/secured"
SHORT_LIFE_S: Final = 15
REFUSED_CLIENTS: Final = 8
HEX: Final = "0123456789abcdef" * 2

Said = dict[str, dict[str, Any]]


def shortened() -> dict[str, str]:
    """The rules, with shorter waits. Every replacement of SHORTER is made."""
    found: dict[str, str] = {}
    unused = dict(SHORTER)
    for path in RULES.glob("*.yml"):
        text = re.sub(r"(?<=        for: )\d+[mh]$", "1s", path.read_text(), flags=re.MULTILINE)
        for old, new in SHORTER.items():
            if old in text:
                unused.pop(old, None)
                text = text.replace(old, new)
        found[path.name] = text
    assert not unused, f"not in the rules: {unused}"
    return found


class Stage:
    """The cluster, its Prometheus, and what alerts have said so far."""

    def __init__(
        self, cluster: LocalCluster, session: ZooKeeperSession, prometheus: RealPrometheus, directory: Path
    ) -> None:
        self.cluster = cluster
        self.session = session
        self.prometheus = prometheus
        self.directory = directory
        self.said: Said = {}
        self._made = 0

    def aim(self, *others: ControllerDaemon) -> None:
        """Have Prometheus scrape the daemons where they are now; one that is down, where it was."""
        controllers = {each.name: str(each.http_url) for each in (*self.cluster.controllers, *others)}
        self.prometheus.scrape("lethe-controller", controllers)
        self.prometheus.scrape("lethe-broker", {each.name: str(each.http_url) for each in self.cluster.brokers})

    async def fires(self, alert: str, done: str, *words: str, limit_s: float = LIMIT_S) -> None:
        """Wait until the alert fires and its text has these words, and keep what it says."""
        assert alert not in self.said
        seen: list[dict[str, Any]] = []

        async def says_so() -> bool:
            seen[:] = await self.prometheus.alerts(alert)
            return any(all(word in _text(each) for word in words) for each in seen)

        await until(says_so, limit_s, lambda: f"{alert} fires and says {words}: {[_text(each) for each in seen]}")
        one = next(each for each in seen if all(word in _text(each) for word in words))
        self.said[alert] = {"done": done, **one["annotations"], "severity": one["labels"]["severity"]}

    async def topic(self, *assignment: tuple[int, ...], config: Mapping[str, str] | None = None) -> str:
        """A topic with these replicas, led and on disk."""
        self._made += 1
        name = f"orders-{self._made}"
        plan = TopicPlan(name, TopicId(uuid.uuid4()), assignment, config or {})
        (outcome,) = await topic_znodes.create_topics(self.session, [plan])
        assert outcome.problem is None
        dirs = {each: self.cluster.broker(each).log_dirs for each in assignment[0]}

        async def is_there() -> bool:
            return all(any((root / f"{name}-0").is_dir() for root in roots) for roots in dirs.values())

        await until(is_there, LIMIT_S, lambda: f"{name} is on disk")
        return name

    async def mark(self, name: str) -> None:
        await apply(self.session, Create(paths.delete_topic(name), None))

    async def restart(self, number: int) -> None:
        """Start an agent that is down."""
        await self.cluster.broker(number).start()
        self.aim()

    async def settled(self) -> None:
        """Nothing is marked any more."""
        await until(self._nothing_is_marked, LIMIT_S, lambda: "all deletions have ended")

    async def _nothing_is_marked(self) -> bool:
        found = await self.prometheus.query("sum(lethe_controller_deletion_topics)")
        return bool(found) and found[0]["value"][1] == "0"


def _text(alert: dict[str, Any]) -> str:
    return " ".join(alert["annotations"].values())


Trial = Callable[[Stage], Awaitable[None]]


async def a_broker_dies(stage: Stage) -> None:
    doomed = await stage.topic((2, 3), (3, 2))
    await stage.topic((3,))
    await stage.cluster.broker(3).kill()
    await stage.mark(doomed)
    killed = "killed broker 3 (`kill -9`)"
    await stage.fires("LetheTargetDown", killed, "broker 3")
    await stage.fires(
        "LetheDeletionStuck", f"deleted a topic with replicas on brokers 2 and 3; {killed}", doomed, "BROKER_TO_RETURN"
    )
    await stage.fires("LetheBrokerGone", killed, "2 brokers")
    await stage.fires("LetheOfflinePartitions", f"{killed}, the only one with a partition of another topic", "1 part")
    await stage.restart(3)
    await stage.settled()


async def deletions_are_paused(stage: Stage) -> None:
    name, lethe = await stage.topic((1,)), Lethe(stage.cluster.zookeeper_connect)
    ran = await lethe("topics", "pause-deletions", "--reason", "an audit")
    assert ran.code == 0, ran
    await stage.mark(name)
    done = "`lethe topics pause-deletions --reason 'an audit'`, and deleted a topic"
    await stage.fires("LetheDeletionsPaused", done, "1 marked topic is held")
    ran = await lethe("topics", "resume-deletions")
    assert ran.code == 0, ran
    await stage.settled()


async def a_znode_is_no_topic(stage: Stage) -> None:
    await apply(stage.session, Create(paths.topic("garbled"), b"nonsense"))
    await stage.fires(
        "LetheTopicUnreadable", "created `/brokers/topics/garbled` with the content `nonsense`", "of 1 topic "
    )
    await apply(stage.session, Delete(paths.topic("garbled")))


async def trash_and_debts_cannot_be_read(stage: Stage) -> None:
    entry, debt = paths.trashed("garbled"), f"{paths.debts_of(BrokerId(3))}/garbled"
    for path in (entry, debt):
        await stage.session.ensure_path(path.rpartition("/")[0])
        await apply(stage.session, Create(path, b"nonsense"))
    await Lethe(stage.cluster.zookeeper_connect)("controller-resign")
    await stage.fires(
        "LetheTrashUnreadable",
        "created `/lethe/trash/garbled` with the content `nonsense`, and `lethe controller-resign`",
        "Not everything",
    )
    await stage.fires(
        "LetheDebtsUnreadable",
        "created `/lethe/debts/3/garbled` with the content `nonsense`, and `lethe controller-resign`",
        "1 znode ",
    )
    await apply(stage.session, Delete(entry), Delete(debt))
    await Lethe(stage.cluster.zookeeper_connect)("controller-resign")


async def a_registration_is_no_broker(stage: Stage) -> None:
    await apply(stage.session, Create(paths.broker_id(8), b"nonsense", ephemeral=True))
    await stage.fires("LetheBrokerUnreadable", "registered a broker 8 with the content `nonsense`", "of 1 broker ")
    await apply(stage.session, Delete(paths.broker_id(8)))


async def a_broker_cannot_be_reached(stage: Stage) -> None:
    registration = encode_broker(Broker(BrokerId(9), BrokerEpoch(-1), (NOBODY,)), timestamp_ms=1)
    await apply(stage.session, Create(paths.broker_id(9), registration, ephemeral=True))
    await stage.fires(
        "LetheBrokerUnreachable", "registered a broker 9 whose advertised port nobody listens on", "Broker 9"
    )
    await apply(stage.session, Delete(paths.broker_id(9)))


async def caches_are_not_what_they_should_be(stage: Stage) -> None:
    registration = encode_broker(Broker(BrokerId(9), BrokerEpoch(-1), (NOBODY,)), timestamp_ms=1)
    await apply(stage.session, Create(paths.broker_id(9), registration, ephemeral=True))
    registered = "registered a broker 9 whose advertised port nobody listens on"
    await stage.fires("LetheCachesUnseen", registered, "of 1 broker ")
    await stage.mark(await stage.topic((1, 2)))
    done = f"{registered}, and deleted a topic; `lethe.tombstone.timeout.ms` was {TOMBSTONE_TIMEOUT_MS}"
    await stage.fires("LetheTombstonesOwed", done, "Broker 9", "1 deleted topic")
    await apply(stage.session, Delete(paths.broker_id(9)))

    leader = await stage.cluster.active_controller(LIMIT_S)
    await haunt(stage.session, 1, GROUP_METADATA_TOPIC, leader.id)
    await Lethe(stage.cluster.zookeeper_connect)("controller-resign")
    done = f"told broker 1 of `{GROUP_METADATA_TOPIC}`, which ZooKeeper did not have, before `lethe controller-resign`"
    await stage.fires("LetheGhostsShown", done, "1 topic that is not in ZooKeeper")
    leader = await stage.cluster.active_controller(LIMIT_S)
    await drop(stage.session, 1, GROUP_METADATA_TOPIC, leader.id)


async def a_directory_cannot_be_removed(stage: Stage) -> None:
    name = await stage.topic((1,))
    (directory,) = [root / f"{name}-0" for root in stage.cluster.broker(1).log_dirs if (root / f"{name}-0").is_dir()]
    directory.joinpath(*["deeper"] * 20).mkdir(parents=True)
    await stage.mark(name)
    done = "put directories 20 deep into a replica's directory, and deleted the topic"
    await stage.fires("LetheBytesNotRemoved", done, "broker 1")


async def a_directory_is_set_aside(stage: Stage) -> None:
    broker = stage.cluster.broker(2)
    await broker.stop()
    stray = broker.log_dirs[0] / f"payments-0.{HEX}-stray"
    stray.mkdir()
    (stray / "00000000000000000000.log").write_bytes(b"x" * 4096)
    await stage.restart(2)
    await stage.fires(
        "LetheDirectoriesSetAside", "started broker 2 with a `-stray` directory of 4 KiB", "broker 2", "4kiB"
    )


async def something_is_left_over(stage: Stage) -> None:
    ghost = stage.cluster.broker(1).log_dirs[0] / "ghost-0"
    ghost.mkdir()
    (ghost / "00000000000000000000.log").write_bytes(b"x" * 8192)
    file = stage.directory / "lethe.prom"
    directories = [f"--log-dir={number}={root}" for number, roots in stage.cluster.log_dirs.items() for root in roots]
    async with serving(file) as url:
        stage.prometheus.scrape("lethe-survey", {"survey-host": url})
        await stage.fires(
            "LetheSurveyMissing",
            "had a job `lethe-survey` scraped before any survey was taken",
            "ever",
        )

        async def survey(*options: str) -> Ran:
            return await Lethe(stage.cluster.zookeeper_connect)("survey", "--textfile", str(file), *options)

        ran = await survey(*directories)
        assert ran.code == 1, ran
        await stage.fires(
            "LetheLeftoversFound",
            "made a directory `ghost-0` with 8 KiB in a log directory, and ran `lethe survey --textfile`",
            "directory_without_topic",
        )
        await stage.fires("LetheSurveyStale", "ran no further survey", "old")
        shutil.rmtree(ghost)
        name = await stage.topic((2,))
        (lost,) = [root / f"{name}-0" for root in stage.cluster.broker(2).log_dirs if (root / f"{name}-0").is_dir()]
        shutil.rmtree(lost)
        ran = await survey(*directories, f"--log-dir=1={stage.directory / 'nowhere'}")
        assert ran.code == 1, ran
        await stage.fires(
            "LetheTopicsDamaged",
            "removed the directory of a replica of a topic that is to stay, and ran `lethe survey --textfile`",
            "replica_without_directory",
        )
        await stage.fires(
            "LetheSurveyIncomplete",
            "ran `lethe survey --textfile` with a log directory that is not there",
            ": 1 problem",
        )
        stage.prometheus.scrape("lethe-survey", {})
    await stage.mark(name)
    await stage.settled()


async def a_journal_cannot_be_written(stage: Stage) -> None:
    journal = stage.cluster.broker(1).journal_dir
    moved = journal.with_name("elsewhere")
    journal.rename(moved)
    journal.write_text("a file where a directory was")
    # Enough to tell of to fill the file that is open; the next one cannot be opened.
    for _ in range(4):
        await stage.mark(await stage.topic((1,), (1,), (1,), (1,)))
    done = "put a file in the place of broker 1's journal directory, which was full soon after"
    await stage.fires("LetheJournalLosing", done, "broker 1")
    journal.unlink()
    moved.rename(journal)


async def a_log_directory_fails(stage: Stage) -> None:
    lost = stage.cluster.broker(2).log_dirs[1]
    lost.rename(lost.with_name("lost"))
    lost.write_text("a file where a directory was")
    done = "put a file in the place of a log directory of broker 2"
    await stage.fires("LetheLogDirectoryOffline", done, "broker 2")
    lost.unlink()
    lost.with_name("lost").rename(lost)
    await stage.cluster.broker(2).stop()
    await stage.restart(2)


async def leaders_are_elected_uncleanly(stage: Stage) -> None:
    await stage.topic((3, 1), config={"unclean.leader.election.enable": "true"})
    one, three = stage.cluster.broker(1), stage.cluster.broker(3)
    await one.kill()
    await until(lambda: _registered(stage, 1, False), LIMIT_S, lambda: "broker 1 is gone")
    await three.kill()
    await until(lambda: _registered(stage, 3, False), LIMIT_S, lambda: "broker 3 is gone")
    await stage.restart(1)
    done = "a topic that allows it: killed first its follower, then its leader, and started the follower alone"
    await stage.fires("LetheUncleanElection", done)
    await stage.restart(3)


async def _registered(stage: Stage, broker: int, wanted: bool) -> bool:
    (found,) = await stage.session.read([Exists(paths.broker_id(broker))])
    return isinstance(found, Present) is wanted


async def events_wait(stage: Stage) -> None:
    """ZooKeeper stands still for less than a session, while deletions are under way."""
    zookeeper = stage.cluster.zookeeper
    assert zookeeper is not None
    done = "stopped ZooKeeper (SIGSTOP) for some seconds, shorter than a session, while topics were deleted"
    for _ in range(TRIES):
        for name in [await stage.topic((1, 2), (2, 3), (3, 1)) for _ in range(4)]:
            await stage.mark(name)
        zookeeper.pause()
        try:
            await stage.fires("LetheEventQueueSlow", done, "has waited", limit_s=PAUSE_S)
            break
        except AssertionError:
            # What was under way needed nothing of ZooKeeper just then.
            continue
        finally:
            zookeeper.resume()
    assert "LetheEventQueueSlow" in stage.said
    await stage.settled()


async def two_say_that_they_lead(stage: Stage) -> None:
    await stage.session.ensure_path("/other")
    foreign_member = ControllerDaemon(
        1009, stage.directory / "stranger", {"zookeeper.connect": f"{stage.cluster.zookeeper_connect}/other"}
    )
    try:
        await foreign_member.start()
        stage.aim(foreign_member)
        done = "started a third controller with another chroot in `zookeeper.connect`, and scraped it with the others"
        await stage.fires("LetheTwoActiveControllers", done, "2 controllers", foreign_member.name)
    finally:
        stage.aim()
        await foreign_member.stop()
        foreign_member.process.close()


async def brokers_do_not_obey(stage: Stage) -> None:
    registration = encode_broker(Broker(BrokerId(7), BrokerEpoch(0), (SASL_ONLY,)), timestamp_ms=0)
    await apply(stage.session, Create(paths.broker_id(BrokerId(7)), registration, ephemeral=True))
    done = "registered a broker 7 that listens on SASL_PLAINTEXT only"
    await stage.fires("LetheBrokerRefuses", done, "Broker 7", "BROKER_NOT_SPOKEN")
    await apply(stage.session, Delete(paths.broker_id(BrokerId(7))))

    await stage.session.ensure_path("/powerless")
    lone = ControllerDaemon(
        1008, stage.directory / "lone", {"zookeeper.connect": f"{stage.cluster.zookeeper_connect}/powerless"}
    )
    try:
        await lone.start()
        stage.aim(lone)
        there = f"/powerless{paths.broker_id(BrokerId(7))}"
        await apply(stage.session, Create(there, registration, ephemeral=True))
        done = "did the same under a controller that had no broker"
        await stage.fires("LetheControllerPowerless", done, lone.name, "no broker has obeyed")
    finally:
        stage.aim()
        await lone.stop()
        lone.process.close()


async def certificates_end_and_access_is_refused(stage: Stage) -> None:
    """A controller of a cluster of its own, with a listener with TLS and a wrong password for its brokers."""
    authority, key_store = Authority(), stage.directory / "key.pem"
    authority.issue(ends=3 * DAY).pem_file(key_store)
    await stage.session.ensure_path(f"{SECURED}/brokers/ids")
    lone = ControllerDaemon(1007, stage.directory / "secured", secured_properties(stage, key_store))
    broker = SecureBroker(mechanisms=scram(ScramMechanism.SHA_512, "lethe", "right"))
    async with broker.running() as port:
        try:
            await lone.start()
            stage.aim(lone)
            await certificates_end(stage, lone, authority, key_store)
            await clients_are_refused(stage, lone)
            endpoint = Endpoint("SASL_PLAINTEXT", "127.0.0.1", port, SecurityProtocol.SASL_PLAINTEXT)
            registration = encode_broker(Broker(BrokerId(7), BrokerEpoch(0), (endpoint,)), timestamp_ms=0)
            await apply(stage.session, Create(f"{SECURED}{paths.broker_id(BrokerId(7))}", registration, ephemeral=True))
            done = "registered a broker that refuses the password of its active controller"
            await stage.fires("LetheActiveControllerRefused", done, lone.name, "brokers SASL_PLAINTEXT")
            await lone.stop()
            authority.issue().pem_file(key_store)
            lone.launch()
            await until(lambda: _is_served(lone), LIMIT_S, lambda: "the controller serves HTTP")
            stage.aim(lone)
            done = "started that controller again, which such a broker keeps from taking control"
            await stage.fires("LetheAccessRefused", done, lone.name, "brokers SASL_PLAINTEXT")
        finally:
            stage.aim()
            await lone.stop()
            lone.process.close()


def secured_properties(stage: Stage, key_store: Path) -> dict[str, str]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "zookeeper.connect": f"{stage.cluster.zookeeper_connect}{SECURED}",
        "listeners": "SECURE://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.security.protocol.map": "SECURE:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
            f'{module} required username="lethe" password="wrong";'
        ),
    }


async def certificates_end(stage: Stage, lone: ControllerDaemon, authority: Authority, key_store: Path) -> None:
    done = "gave the listener of a controller a certificate that ends in three days"
    await stage.fires("LetheCertificateExpiring", done, lone.name, "listener SECURE ends in 2d 23h")
    authority.issue(ends=timedelta(seconds=SHORT_LIFE_S)).pem_file(key_store)
    done = f"put a certificate that ended {SHORT_LIFE_S} seconds later into its key store"
    await stage.fires("LetheCertificateExpiringNow", done, lone.name, "listener SECURE has ended")
    assert not await stage.prometheus.alerts("LetheCertificateExpiring"), "one certificate is one alert"
    key_store.write_text("no certificate")
    done = "wrote `no certificate` into that key store"
    await stage.fires("LetheCertificateUnusable", done, lone.name, "listener SECURE")


async def clients_are_refused(stage: Stage, lone: ControllerDaemon) -> None:
    found = re.search(r"SECURE://127\.0\.0\.1:(\d+)", lone.log_file.read_text())
    assert found is not None
    for _ in range(REFUSED_CLIENTS):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(found[1]))
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
    done = f"connected to the controller's listener with TLS {REFUSED_CLIENTS} times without TLS"
    await stage.fires("LetheClientsRefused", done, lone.name, "listener SECURE", "Most of them for tls")
    (firing,) = await stage.prometheus.alerts("LetheClientsRefused")
    assert firing["labels"]["listener"] == "SECURE"


async def _is_served(daemon: ControllerDaemon) -> bool:
    return daemon.http_url is not None


async def control_changes_hands(stage: Stage) -> None:
    lethe = Lethe(stage.cluster.zookeeper_connect)
    for _ in range(5):
        ran = await lethe("controller-resign")
        assert ran.code == 0, ran
    await stage.fires(
        "LetheControllerFlapping", "`lethe controller-resign`, five times in a row", "times in half an hour"
    )


async def zookeeper_is_away(stage: Stage) -> None:
    zookeeper = stage.cluster.zookeeper
    assert zookeeper is not None
    zookeeper.pause()
    try:
        await stage.fires(
            "LetheZooKeeperSessionLost", "stopped ZooKeeper (SIGSTOP) for longer than a session", "controller"
        )
    finally:
        zookeeper.resume()
    await stage.cluster.active_controller(LIMIT_S)


async def nobody_leads_and_then_another(stage: Stage) -> None:
    for controller in stage.cluster.controllers:
        await controller.kill()
    await stage.fires("LetheNoActiveController", "killed both controllers (`kill -9`)", "No controller is active")

    # The stage's own session may have been lost while ZooKeeper was away.
    async with stage.cluster.session() as session:

        async def is_free() -> bool:
            (found,) = await session.read([Exists(paths.CONTROLLER)])
            return not isinstance(found, Present)

        await until(is_free, LIMIT_S, lambda: "the session of the one that led is over")
        kafka = encode_controller(ControllerZnode(BrokerId(1), 0))
        await apply(session, Create(paths.CONTROLLER, kafka, ephemeral=True))
        for controller in stage.cluster.controllers:
            await controller.start()
        stage.aim()
        done = "started both controllers while `/controller` named broker 1, as a controller of Kafka's has it"
        await stage.fires("LetheOtherControllerLeads", done, "Controller 1 leads")

        async def is_quiet() -> bool:
            return not await stage.prometheus.alerts("LetheNoActiveController")

        await until(is_quiet, LIMIT_S, lambda: "nobody is told any more that there is no controller")


TRIALS: Final[tuple[Trial, ...]] = (
    a_broker_dies,
    deletions_are_paused,
    a_znode_is_no_topic,
    trash_and_debts_cannot_be_read,
    a_registration_is_no_broker,
    a_broker_cannot_be_reached,
    caches_are_not_what_they_should_be,
    a_directory_cannot_be_removed,
    a_directory_is_set_aside,
    something_is_left_over,
    a_journal_cannot_be_written,
    a_log_directory_fails,
    leaders_are_elected_uncleanly,
    two_say_that_they_lead,
    brokers_do_not_obey,
    certificates_end_and_access_is_refused,
    control_changes_hands,
    events_wait,
    zookeeper_is_away,
    nobody_leads_and_then_another,
)


async def test_every_alert_fires_by_its_cause(tmp_path: Path) -> None:
    settings = ClusterSettings(
        controllers=2,
        brokers=3,
        work_dir=tmp_path / "cluster",
        session_timeout_ms=SESSION_MS,
        controller_properties={"lethe.tombstone.timeout.ms": str(TOMBSTONE_TIMEOUT_MS)},
        broker_properties={"log.segment.delete.delay.ms": "100", "replica.catch.up.delay.ms": "100"},
        own_properties={1: {"lethe.journal.max.bytes": "4096", "lethe.journal.max.files": "10"}},
    )
    wanted = os.environ.get("LETHE_TRIALS", "").split()
    chosen = [trial for trial in TRIALS if not wanted or trial.__name__ in wanted]
    async with (
        LocalCluster(settings) as cluster,
        cluster.session() as session,
        RealPrometheus(tmp_path / "prometheus", shortened(), JOBS) as prometheus,
    ):
        stage = Stage(cluster, session, prometheus, tmp_path)
        stage.aim()
        await until(stage._nothing_is_marked, LIMIT_S, lambda: "Prometheus scrapes")
        for trial in chosen:
            await trial(stage)
    names = {name for path in RULES.glob("*.yml") for name in re.findall(r"- alert: (\w+)", path.read_text())}
    assert set(stage.said) == names - UNPROVOKED or len(chosen) < len(TRIALS)
    if "LETHE_ALERTS" in os.environ:
        Path(os.environ["LETHE_ALERTS"]).write_text(json.dumps(stage.said, indent=2) + "\n")
