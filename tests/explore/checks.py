"""What must hold in every state, as in `tests.simulation.invariants`: each check returns a sentence, or None.

rule     in this world
-------  --------------------------------------------------------------------------------------------------------
S1       a topic's znode goes only when no disk has its records, but for what a debt in ZooKeeper names, and no
         registered broker's cache shows it
debt     a debt goes only when its broker has no records of that topic any more
S2, S7   a broker deletes records only of a topic whose deletion was asked for
S3       no broker serves a topic from a log that was made for another one
S4       a marker goes only after its topic's znode, or when the topic was requested back
back     a topic is brought back only while every broker has all its records
S5       no write of an earlier term takes effect
context  the rules of `controller.core.invariants`, whenever the core waits for nothing
"""

from __future__ import annotations

from collections.abc import Iterable

from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, Operation, SetData
from tests.explore.kafka_broker import KafkaBroker
from tests.explore.zookeeper import View


def s1_gone_everywhere(topic_id: TopicId, brokers: Iterable[KafkaBroker], before: View) -> str | None:
    """Judged when the topic's znode has been removed."""
    registered = {broker for broker, _ in before.registered}
    for broker in brokers:
        if broker.log_of == topic_id and (broker.id, topic_id) not in before.debts:
            return f"S1: the znode of topic {name_of(topic_id)} goes while broker {broker.id} still has its records"
        if broker.id in registered and broker.is_up and broker.shown == topic_id:
            return f"S1: the znode of topic {name_of(topic_id)} goes while the cache of broker {broker.id} shows it"
    return None


def debts_are_paid(brokers: Iterable[KafkaBroker], before: View, after: View) -> str | None:
    """Judged when debts may have gone."""
    for broker in brokers:
        for debtor, topic_id in before.debts:
            if debtor == broker.id and topic_id == broker.log_of and (debtor, topic_id) not in after.debts:
                return f"debt: that of broker {debtor} goes while it still has the records of topic {name_of(topic_id)}"
    return None


def s2_was_asked_for(topic_id: TopicId | None, asked: Iterable[TopicId], broker: KafkaBroker) -> str | None:
    """Judged when a broker has deleted the records of a topic."""
    if topic_id is None or topic_id in asked:
        return None
    return f"S2: broker {broker.id} deletes the records of topic {name_of(topic_id)}, which nobody asked to delete"


def s3_serves_its_own(broker: KafkaBroker) -> str | None:
    """Judged when a broker has handled a request."""
    hosted = broker.hosted
    if hosted is None or hosted.topic_id in (None, broker.log_of):
        return None
    records = "no log" if broker.log_of is None else f"the records of topic {name_of(broker.log_of)}"
    return f"S3: broker {broker.id} serves topic {name_of(hosted.topic_id)} from {records}"


def s4_marker_goes_last(topic: str, operations: Iterable[Operation], before: View, after: View) -> str | None:
    """Judged when a controller's write was applied."""
    marker = paths.delete_topic(topic)
    if after.has_topic and not before.has_request and marker in _deleted(operations):
        return "S4: the marker is removed while its topic's znode is there"
    return None


def comes_back_whole(brokers: Iterable[KafkaBroker], before: View, after: View) -> str | None:
    """Judged when a marker has gone and the topic is there."""
    if not (before.is_marked and after.has_topic and not after.is_marked):
        return None
    lost = next((broker.id for broker in brokers if broker.log_of != after.topic_id or not broker.has_records), None)
    topic = name_of(after.topic_id)
    return None if lost is None else f"back: topic {topic} is brought back, and broker {lost} has lost its records"


def s5_write_is_current(operations: Iterable[Operation], epoch_version: int, before: View) -> str | None:
    """Judged when a controller's write was applied; one that begins or ends a term checks the epoch itself."""
    touched = {each.path for each in operations if isinstance(each, Create | SetData | Delete)}
    if touched & {paths.controller(), paths.controller_epoch()} or epoch_version == before.epoch_version:
        return None
    return (
        f"S5: a write takes effect whose term stands on version {epoch_version} of /controller_epoch, "
        f"which has version {before.epoch_version}"
    )


def _deleted(operations: Iterable[Operation]) -> tuple[str, ...]:
    return tuple(each.path for each in operations if isinstance(each, Delete))


def name_of(topic_id: TopicId | None) -> str:
    """Return the name under which a path tells of this topic: A is the first to have the name, B the second."""
    return "without id" if topic_id is None else "ABCDEFGH"[topic_id.int - 2]
