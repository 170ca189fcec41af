"""How brokers, and through them clients, see this controller: as one more live broker.

Brokers look for their controller among the live brokers, by the name of a listener, and clients connect to whatever
broker is named under the listener by which they came. A live broker that lacks one of the others' listeners makes
Kafka's own controller fail over again and again, and one without a rack among brokers that have racks makes every
automatic creation of a topic fail. So the controller is listed with all listeners that its brokers have, and with a
rack where they have one: the one that most of them stand in, where a replica more is the smallest share (its replicas
are moved away again, see `eviction`).

A listener that the controller does not listen on itself is listed with the address of the first one that it has:
whoever comes that way speaks another security protocol than the controller, and is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context
from lethe.protocol.vocabulary import NO_EPOCH, Broker, Endpoint


def entry(context: Context) -> Broker | None:
    """This controller among the live brokers; None for a guest, which is not listed."""
    config = context.config
    if not config.endpoints:
        return None
    brokers = context.cluster.brokers.values()
    return Broker(config.controller_id, NO_EPOCH, _endpoints(config, brokers), _rack(brokers))


def _endpoints(config: CoreConfig, brokers: Iterable[Broker]) -> tuple[Endpoint, ...]:
    """Ours, each under the protocol by which brokers know its name, and theirs at our first address."""
    theirs = {endpoint.listener: endpoint.protocol for broker in brokers for endpoint in broker.endpoints}
    ours = {e.listener: e._replace(protocol=theirs.get(e.listener, e.protocol)) for e in config.endpoints}
    _, host, port, _ = config.endpoints[0]
    others = (Endpoint(name, host, port, protocol) for name, protocol in theirs.items() if name not in ours)
    return (*ours.values(), *others)


def _rack(brokers: Iterable[Broker]) -> str | None:
    racks = Counter(broker.rack for broker in brokers if broker.rack is not None)
    return min(racks, key=lambda rack: (-racks[rack], rack)) if racks else None
