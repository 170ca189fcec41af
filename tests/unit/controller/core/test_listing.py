"""How brokers see an advertised controller: with each of its listeners, and in its rack."""

from __future__ import annotations

from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context
from lethe.controller.core.listing import entry
from lethe.protocol.kafka.versions import LATEST
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol

OURS = Endpoint("INTERNAL", "controller", 9999)
SSL = SecurityProtocol.SSL


def broker(number: int, *listeners: Endpoint, rack: str | None = None) -> Broker:
    return Broker(BrokerId(number), BrokerEpoch(number), listeners, rack)


def context(*brokers: Broker, endpoints: tuple[Endpoint, ...] = (OURS,)) -> Context:
    found = Context(CoreConfig(BrokerId(1000), LATEST, endpoints=endpoints))
    found.cluster.brokers = {each.id: each for each in brokers}
    return found


def named(name: str, protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT) -> Endpoint:
    return Endpoint(name, "broker", 9092, protocol)


def test_a_guest_is_not_listed() -> None:
    assert entry(context(broker(1, named("INTERNAL")), endpoints=())) is None


def test_alone_it_has_what_it_listens_on() -> None:
    assert entry(context()) == Broker(BrokerId(1000), NO_EPOCH, (OURS,), None)


def test_it_has_all_listeners_that_any_broker_has_under_their_protocols() -> None:
    found = entry(context(broker(1, named("INTERNAL"), named("SECURE", SSL)), broker(2, named("INTERNAL"), named("X"))))
    assert found is not None
    assert found.endpoints == (OURS, Endpoint("SECURE", "controller", 9999, SSL), Endpoint("X", "controller", 9999))


def test_a_listener_of_its_own_keeps_its_address_and_gets_the_brokers_protocol() -> None:
    clients = Endpoint("CLIENTS", "public", 9000)
    found = entry(context(broker(1, named("INTERNAL"), named("CLIENTS", SSL)), endpoints=(OURS, clients)))
    assert found is not None
    assert found.endpoints == (OURS, clients._replace(protocol=SSL))


def test_it_stands_in_the_rack_of_most_brokers_where_they_have_racks() -> None:
    def rack(*racks: str | None) -> str | None:
        found = entry(context(*(broker(n, named("INTERNAL"), rack=each) for n, each in enumerate(racks))))
        assert found is not None
        return found.rack

    assert rack(None, None) is None
    assert rack("b", "a", "b") == "b"
    assert rack("b", "a") == "a"
    assert rack(None, "z") == "z"
