"""With what control of a cluster is taken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.rescue_run import RescueOptions, chosen_topics, means_for
from lethe.admin.rescue_snapshot import ElectionRate, RescueSnapshot
from lethe.cli.main import app
from lethe.protocol.kafka.versions import LATEST, InterBrokerProtocol
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol
from lethe.survey.broker_settings import BrokerSettings
from lethe.survey.evidence import Evidence
from lethe.survey.explain import DeletionVerdict, Explanation
from lethe.survey.views import Survey, ZooKeeperTree


def look(
    *settings: BrokerSettings, listener: str = "PLAINTEXT", speaks: SecurityProtocol | None = None
) -> RescueSnapshot:
    endpoint = Endpoint(listener, "h", 1, speaks or SecurityProtocol.PLAINTEXT)
    brokers = tuple(Broker(BrokerId(n), BrokerEpoch(n), (endpoint,)) for n in (1, 2, 1000))
    evidence = Evidence(Survey(1, 1, ZooKeeperTree(brokers=brokers)), ())
    return RescueSnapshot(evidence, (), None, settings, (), ElectionRate(0, 1))


def test_what_brokers_say_of_themselves_is_what_they_are_spoken_to_with() -> None:
    old, new = (InterBrokerProtocol.parse(text) for text in ("2.5", "3.9"))
    said = (BrokerSettings(BrokerId(1), True, new, "inside"), BrokerSettings(BrokerId(2), True, old, "inside"))
    means = means_for(RescueOptions("zk:1/x", PLAINTEXT_REACH), look(*said, listener="INSIDE"))
    assert (means.connect, means.ibp, means.reach.listener) == ("zk:1/x", old, "INSIDE")
    assert means.controller_id == 1001, "1000 is the id of a broker"


def test_what_the_command_line_says_comes_first() -> None:
    said = BrokerSettings(BrokerId(1), True, LATEST, "INSIDE")
    options = RescueOptions("zk:1", PLAINTEXT_REACH, controller_id=7, ibp="2.8", listener="outside")
    means = means_for(options, look(said, listener="OUTSIDE"))
    assert (means.controller_id, str(means.ibp), means.reach.listener) == (7, "2.8-IV1", "OUTSIDE")


def test_id_of_a_broker_is_refused() -> None:
    with pytest.raises(Refusal, match="is the id of a broker") as refused:
        means_for(RescueOptions("zk:1", PLAINTEXT_REACH, controller_id=2), look())
    assert refused.value.exit is Exit.USAGE


def test_brokers_that_cannot_be_told_anything_are_not_taken_control_of() -> None:
    nothing = r"could send broker 1 nothing: it has no listener PLAINTEXT \(it has SSL: SSL\), and so it is with 2"
    with pytest.raises(Refusal, match=nothing):
        means_for(RescueOptions("zk:1", PLAINTEXT_REACH), look(listener="SSL", speaks=SecurityProtocol.SSL))
    inside = BrokerSettings(BrokerId(1), True, LATEST, "INSIDE")
    with pytest.raises(Refusal, match="its listener INSIDE is SSL, and PLAINTEXT is configured for it"):
        means_for(RescueOptions("zk:1", PLAINTEXT_REACH), look(inside, listener="INSIDE", speaks=SecurityProtocol.SSL))
    with pytest.raises(Refusal, match="no listener INSIDE"):
        means_for(RescueOptions("zk:1", PLAINTEXT_REACH, listener="inside"), look())


def test_where_deletion_is_switched_off_nothing_is_deleted_but_what_was_seen() -> None:
    seen = replace(look(BrokerSettings(BrokerId(1), False)), found=(Explanation("half", DeletionVerdict.WAITING),))
    assert chosen_topics(RescueOptions("zk:1", PLAINTEXT_REACH), seen) == frozenset({"half"})
    assert chosen_topics(RescueOptions("zk:1", PLAINTEXT_REACH), replace(seen, settings=())) is None
    assert chosen_topics(RescueOptions("zk:1", PLAINTEXT_REACH, ("orders",)), replace(seen, settings=())) == frozenset(
        {"orders"}
    )


@pytest.mark.parametrize(
    "given, said",
    [
        (["--topic", "a/b"], "topic 'a/b'"),
        (["--even-if-disabled"], "name each topic"),
        (["--inter-broker-protocol", "nine"], "nine"),
    ],
)
def test_bad_input_is_refused_before_anything_is_connected_to(given: list[str], said: str) -> None:
    answer = CliRunner().invoke(app, ["rescue", "--zookeeper", "127.0.0.1:1", *given])
    assert answer.exit_code == Exit.USAGE
    assert said in answer.stderr
