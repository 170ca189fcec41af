"""Commands in front of a broker with TLS and SASL, from `--command-config` to what they print: seen, refused, without
rights."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.kafka.server import Close
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.rescue_run import RescueOptions, means_for
from lethe.admin.rescue_snapshot import look
from lethe.admin.topic_plans import TopicPlan, creation_operations
from lethe.cli.answer import Answer
from lethe.cli.broker_access import reach_from
from lethe.cli.explain import explained
from lethe.cli.rescue import rescued
from lethe.cli.survey import survey_answer
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import Request, Response
from lethe.protocol.security.scram import ScramMechanism
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerId, Endpoint, SecurityProtocol
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Data, GetData
from lethe.protocol.zookeeper.znodes import encode_broker
from tests.fakes.answering_broker import AnsweringBroker
from tests.fakes.certificates import Authority, Leaf
from tests.fakes.secure_broker import SecureBroker, scram
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, bring_online, elect, prepare

CA = Authority()
PASSWORD = "correct-horse"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@dataclass
class Place:
    """A cluster of one broker, the controller, whose listener INTERNAL has TLS, certificates of clients, and SCRAM."""

    directory: Path
    session: FakeSession
    handler: AnsweringBroker = field(default_factory=lambda: AnsweringBroker({"orders": None}, {"orders": (0,)}))
    leaf: Leaf = field(default_factory=lambda: CA.issue("broker"))
    """The broker's certificate."""

    def reach(self, *, password: str = PASSWORD, trusted: Authority = CA) -> BrokerReach:
        ca, own = trusted.pem_file(self.directory / "ca.pem"), CA.client().pem_file(self.directory / "own.pem")
        file = self.directory / "client.properties"
        file.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={MODULE} required username="lethe" password="{password}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={own}\n"
        )
        return reach_from(file)

    def _answer(self, request: Request) -> Response | None:
        answer = self.handler.answer(request)
        return None if isinstance(answer, Close) else answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SecureBroker]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.leaf.pem_file(self.directory / "broker.pem"))
        context.load_verify_locations(CA.pem_file(self.directory / "clients.pem"))
        context.verify_mode = ssl.CERT_REQUIRED
        mechanisms = scram(ScramMechanism.SHA_512, "lethe", PASSWORD)
        broker = SecureBroker(tls=context, mechanisms=mechanisms, handler=self._answer)
        async with broker.running() as port:
            endpoint = Endpoint("INTERNAL", "127.0.0.1", port, SecurityProtocol.SASL_SSL)
            registered = Broker(BrokerId(1), NO_EPOCH, (endpoint,))
            await apply(self.session, Create(paths.broker_id(1), encode_broker(registered, timestamp_ms=0)))
            yield broker


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await prepare(session, {})
        await elect(session, 1)
        await apply(session, *creation_operations(TopicPlan("orders", None, ((1,),)), config_exists=False))
        await bring_online(session, "orders", {0: (1,)})
        yield Place(tmp_path, session)


def everything(answer: Answer) -> str:
    shown = f"{answer.data} {answer.lines} {answer.tables}"
    assert PASSWORD not in shown
    return shown


async def test_a_survey_sees_what_the_user_may_see(place: Place) -> None:
    reach = place.reach()
    async with place.running() as broker:
        answer = await survey_answer(place.session, reach, {})
    assert (answer.exit, answer.lines[-1]) == (
        Exit.OK,
        "Nothing is left over in ZooKeeper, in the caches and on disks as far as brokers tell.",
    )
    assert set(broker.principals) == {"lethe"}


async def test_without_rights_nothing_is_left_over_and_nothing_was_seen(place: Place) -> None:
    """As ClusterAction alone gives: an empty list of topics without an error, which would make each of them missing."""
    place.handler.may_describe, place.handler.log_dirs_error = frozenset(), DENIED
    place.handler.cached["ghost"] = None
    reach = place.reach()
    async with place.running():
        answer = await survey_answer(place.session, reach, {})
    assert answer.exit is Exit.UNREACHABLE
    assert isinstance(answer.data, dict)
    assert answer.data["findings"] == []
    shown = everything(answer)
    assert "Metadata: it does not let User:lethe see all topics; grant it Describe on all topics" in shown
    assert "CLUSTER_AUTHORIZATION_FAILED for User:lethe; grant it Describe on the cluster" in shown


async def unseen(place: Place, reach: BrokerReach) -> str:
    """What a survey says that could see nothing of the broker, and concludes nothing from it."""
    async with place.running():
        answer = await survey_answer(place.session, reach, {})
        await apply(place.session, Create(paths.delete_topic("orders"), b""))
        why = everything(await explained(place.session, reach, "orders"))
    assert answer.exit is Exit.UNREACHABLE
    assert isinstance(answer.data, dict)
    assert answer.data["findings"] == []
    assert "orders may wait for broker 1, which lethe cannot ask" in why
    assert "does not answer" not in why, "the controller may be well"
    assert place.handler.asked == []
    return everything(answer)


async def test_a_wrong_password_is_named_with_broker_user_and_remedy(place: Place) -> None:
    shown = await unseen(place, place.reach(password="wrong"))
    assert "(SASL_SSL) refuses user lethe with SCRAM-SHA-512" in shown
    assert "check user name and password in sasl.jaas.config" in shown


async def test_a_broker_that_is_not_trusted_is_not_asked(place: Place) -> None:
    shown = await unseen(place, place.reach(trusted=Authority("other")))
    assert "its certificate is issued by an authority that is not trusted here" in shown
    assert "ssl.truststore.location" in shown


async def test_a_brokers_certificate_that_has_expired(place: Place) -> None:
    place.leaf = CA.expired()
    shown = await unseen(place, place.reach())
    assert "its certificate has expired" in shown


async def test_without_the_file_the_listener_is_named_with_the_option(place: Place) -> None:
    shown = await unseen(place, reach_from(None))
    assert "it has no PLAINTEXT listener (it has INTERNAL: SASL_SSL)" in shown
    assert "--command-config FILE" in shown


# --- rescue -------------------------------------------------------------------------------------------------------


async def refused(place: Place, reach: BrokerReach) -> str:
    """What a rescue says that may not take control; it has changed nothing."""
    await apply(place.session, Create(paths.delete_topic("orders"), b""))
    before = await place.session.read([GetData(paths.CONTROLLER), GetData(paths.delete_topic("orders"))])
    options = RescueOptions("127.0.0.1:1", reach, broker_timeout_ms=10_000)
    async with place.running():
        with pytest.raises(Refusal) as refusal:
            await rescued(place.session, options, confirm=None, say=lambda _: None)
    assert await place.session.read([GetData(paths.CONTROLLER), GetData(paths.delete_topic("orders"))]) == before
    assert all(isinstance(each, Data) for each in before)
    assert PASSWORD not in f"{refusal.value} {refusal.value.data}"
    return str(refusal.value)


async def test_a_rescue_without_the_right_is_refused_before_it_takes_control(place: Place) -> None:
    place.handler.command_error = DENIED
    assert await refused(place, place.reach()) == (
        "A rescue could not command every broker: broker 1: CLUSTER_AUTHORIZATION_FAILED for User:lethe; "
        "grant it ClusterAction on the cluster. It connects as --command-config says."
    )


async def test_a_rescue_whose_login_is_refused_does_not_take_control(place: Place) -> None:
    shown = await refused(place, place.reach(password="wrong"))
    assert "A rescue could not command every broker: broker 1: 127.0.0.1:" in shown
    assert "refuses user lethe with SCRAM-SHA-512" in shown


async def test_a_rescue_that_trusts_no_broker_does_not_take_control(place: Place) -> None:
    assert "an authority that is not trusted here" in await refused(place, place.reach(trusted=Authority("other")))


async def test_the_controller_of_a_rescue_is_reached_like_the_questions(place: Place) -> None:
    reach = place.reach()
    async with place.running():
        seen = await look(place.session, reach, ["orders"], 10_000)
    assert seen.beyond_command == ()
    means = means_for(RescueOptions("127.0.0.1:1", reach), seen)
    assert (means.reach.listener, means.reach.security) == ("INTERNAL", reach.security)
