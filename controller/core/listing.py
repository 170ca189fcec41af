"""This controller's entry among the live brokers of UpdateMetadata.

Brokers look for their controller among the live brokers, by the name of a listener. Clients connect to any live broker
through the listener that they use.

    the entry has           because otherwise
    ----------------------  -------------------------------------------------------------------------------------
    all brokers' listeners  Kafka's own controller fails over again and again
    a rack, if brokers do   every automatic creation of a topic fails

The rack is that of most brokers, where one more replica has the least weight (`eviction` moves its replicas away). A
listener that the controller does not have itself gets the address of its first one: clients of that listener use
another security protocol, and are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context
from lethe.protocol.vocabulary import NO_EPOCH, Broker, Endpoint


def entry(context: Context) -> Broker | None:
    """Return this controller's entry; None for a guest, which is not advertised."""
    config = context.config
    if not config.endpoints:
        return None
    brokers = context.cluster.brokers.values()
    return Broker(config.controller_id, NO_EPOCH, _endpoints(config, brokers), _rack(brokers))


def _endpoints(config: CoreConfig, brokers: Iterable[Broker]) -> tuple[Endpoint, ...]:
    """Return the controller's listeners with the brokers' protocols, and the other listeners at its first address."""
    theirs = {endpoint.listener: endpoint.protocol for broker in brokers for endpoint in broker.endpoints}
    ours = {e.listener: e._replace(protocol=theirs.get(e.listener, e.protocol)) for e in config.endpoints}
    _, host, port, _ = config.endpoints[0]
    others = (Endpoint(name, host, port, protocol) for name, protocol in theirs.items() if name not in ours)
    return (*ours.values(), *others)


def _rack(brokers: Iterable[Broker]) -> str | None:
    racks = Counter(broker.rack for broker in brokers if broker.rack is not None)
    return min(racks, key=lambda rack: (-racks[rack], rack)) if racks else None
