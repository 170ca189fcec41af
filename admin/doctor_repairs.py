"""Turns an ill into operations on znodes, from what was read right before. Pure.

A repair removes nothing that may belong to something that exists: the multi checks the version of every znode that it
writes and of those that it concludes from, and the absence of the topic or broker that has to be gone.

    CONFIG_WITHOUT_TOPIC of gone      create and delete /brokers/topics/gone (fails if it exists), and the same for
                                      /lethe/trash/gone; delete /config/topics/gone with the version that was read
    REASSIGNMENT_WITHOUT_TOPIC        the same checks; write the request without the topic's entries, or delete it
    REASSIGNMENT_TO_ABSENT_BROKER     check the version of /brokers/topics/T and that the brokers are absent; write the
                                      request without the partitions that still name them
    PREFERRED_ELECTION_LEFT           delete the request, if it is the one that was found
    THROTTLE_WITHOUT_REASSIGNMENT     check the version of /brokers/topics/T, which a reassignment writes first;
                                      write the settings without the throttles; notify the brokers

`Unneeded` means that the ill is gone, `Impossible` that a person has to look again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.admin.doctor_ills import Ill, IllKind
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.config_writes import config_notification
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Data,
    Delete,
    Operation,
    SetData,
    absence_check,
)
from lethe.protocol.zookeeper.znodes import (
    MalformedZnode,
    decode_config,
    decode_config_change,
    decode_controller,
    decode_reassignment,
    decode_topic,
    encode_config,
    encode_reassignment,
)

_OF_TRASH: Final = (paths.LETHE, paths.TRASH)
Read = Mapping[str, Data | None]
"""Znodes by path as they are now; None: it does not exist."""


class Impossible(NamedTuple):
    """Why the ill cannot be repaired as it was found."""

    why: str


class Unneeded(NamedTuple):
    """The ill is gone."""


class _Gone(Exception):
    """A znode of the ill does not exist any more."""


@dataclass(frozen=True, slots=True)
class ZnodeRepair:
    """Operations of one multi."""

    operations: tuple[Operation, ...]
    absent: tuple[str, ...] = ()
    """Znodes that the operations require to be absent; so does taking the repair back."""
    absent_now: tuple[str, ...] = ()
    """Znodes that only the operations require to be absent: a topic in the trash, brokers that a request names."""

    @property
    def written(self) -> tuple[str, ...]:
        """Znodes that are changed or removed."""
        paths_ = (each.path for each in self.operations if isinstance(each, SetData | Delete))
        return tuple(dict.fromkeys(path for path in paths_ if path not in self.required_absent))

    @property
    def required_absent(self) -> tuple[str, ...]:
        return self.absent + self.absent_now


RepairPlan = ZnodeRepair | Impossible | Unneeded


def paths_of(ill: Ill) -> tuple[str, ...]:
    """Return the znodes to read before `repair_of`."""
    if ill.kind is IllKind.ACL_WITHOUT_TOPIC:
        return ill.what, *_OF_TRASH, paths.trashed(ill.topic or ""), paths.ACL_CHANGES
    if ill.kind in (IllKind.CONFIG_WITHOUT_TOPIC, IllKind.MARKER_WITHOUT_TOPIC, IllKind.REASSIGNMENT_WITHOUT_TOPIC):
        return ill.what, *_OF_TRASH, paths.trashed(ill.topic or "")
    if ill.kind in (IllKind.REASSIGNMENT_TO_ABSENT_BROKER, IllKind.THROTTLE_WITHOUT_REASSIGNMENT):
        return ill.what, paths.topic(ill.topic or ""), *map(paths.broker_id, ill.absent)
    if ill.kind is IllKind.REQUEST_FOR_LETHE:
        return ill.what, paths.CONTROLLER
    return (ill.what,)


def repair_of(ill: Ill, read: Read) -> RepairPlan:
    """Return the operations; `read` has the znodes of `paths_of`."""
    try:
        return _REPAIRS[ill.kind](ill, read)
    except _Gone:
        return Unneeded()
    except MalformedZnode as malformed:
        return Impossible(str(malformed))


def _found(read: Read, path: str) -> Data:
    data = read[path]
    if data is None:
        raise _Gone
    return data


def _delete(read: Read, path: str) -> Delete:
    return Delete(path, _found(read, path).stat.version)


def _without_topic(ill: Ill, read: Read, *operations: Operation) -> ZnodeRepair | Impossible:
    """Return the repair that requires that no topic of this name exists, or is in the trash. An entry of a topic that
    is not in the trash, and gone, is in its way as well: it may change."""
    topic, trashed = paths.topic(ill.topic or ""), paths.trashed(ill.topic or "")
    if read[trashed] is not None:
        return Impossible(f"{trashed} exists: unless the topic is in the trash, Lethe's next controller removes it")
    # A znode can be checked for absence only where its parent exists.
    untrashed = next((path for path in _OF_TRASH if read[path] is None), trashed)
    return ZnodeRepair((*absence_check(topic), *absence_check(untrashed), *operations), (topic,), (untrashed,))


def _of_absent_topic(ill: Ill, read: Read) -> RepairPlan:
    return _without_topic(ill, read, _delete(read, ill.what))


def _acl(ill: Ill, read: Read) -> RepairPlan:
    # Authorizers drop what they have cached.
    tell = (acl_notification(ill.topic or ""),) if read[paths.ACL_CHANGES] is not None else ()
    return _without_topic(ill, read, _delete(read, ill.what), *tell)


def acl_notification(topic: str) -> Create:
    """Return the notification that the ACLs of the topic of this name have changed."""
    return Create(paths.acl_change(), f"Topic:{topic}".encode(), sequential=True)


def _of_absent_broker(ill: Ill, read: Read) -> RepairPlan:
    assert ill.broker is not None
    broker = paths.broker_id(ill.broker)
    return ZnodeRepair((*absence_check(broker), _delete(read, ill.what)), (broker,))


def _controller(ill: Ill, read: Read) -> RepairPlan:
    holder = decode_controller(_found(read, ill.what).data)
    if holder.broker_id != ill.broker:
        return Unneeded()
    return _of_absent_broker(ill, read)


def _throttle(ill: Ill, read: Read) -> RepairPlan:
    topic, data = paths.topic(ill.topic or ""), _found(read, ill.what)
    found = _found(read, topic)
    if _is_moving(ill, found):
        return Impossible("a reassignment of the topic has begun")
    config = decode_config(ill.what, data.data)
    kept = {key: value for key, value in config.items() if key not in ill.names}
    if kept == config:
        return Unneeded()
    return ZnodeRepair(
        (
            Check(topic, found.stat.version),
            SetData(ill.what, encode_config(kept), data.stat.version),
            config_notification(paths.config_topic(ill.topic or "")),
        )
    )


def _is_moving(ill: Ill, topic: Data) -> bool:
    assignments = decode_topic(ill.topic or "", topic.data).assignments
    return any(each.is_being_reassigned for each in assignments.values())


def _request_without_topic(ill: Ill, read: Read) -> RepairPlan:
    withdrawn = _withdrawn(ill, read, lambda partition, _: partition.topic == ill.topic)
    return _without_topic(ill, read, withdrawn) if withdrawn is not None else Unneeded()


def _request_to_absent_broker(ill: Ill, read: Read) -> RepairPlan:
    topic = paths.topic(ill.topic or "")
    found = _found(read, topic)
    if _is_moving(ill, found):
        return Impossible("a reassignment of the topic has begun")
    absent = frozenset(broker for broker in ill.absent if read[paths.broker_id(broker)] is None)
    those = {TopicPartition(ill.topic or "", number) for number in ill.partitions}
    named = dict[int, None]()

    def drops(partition: TopicPartition, target: Sequence[int]) -> bool:
        away = absent.intersection(target) if partition in those else ()
        named.update(dict.fromkeys(sorted(away)))
        return bool(away)

    withdrawn = _withdrawn(ill, read, drops)
    if withdrawn is None:
        return Unneeded()
    brokers = tuple(map(paths.broker_id, named))
    checks = (each for path in brokers for each in absence_check(path))
    return ZnodeRepair((Check(topic, found.stat.version), *checks, withdrawn), absent_now=brokers)


def _withdrawn(ill: Ill, read: Read, drops: Callable[[TopicPartition, Sequence[int]], bool]) -> Operation | None:
    """Return the write that takes these partitions out of the request; None if it has none of them."""
    data = _found(read, ill.what)
    asked = decode_reassignment(data.data)
    kept = {partition: target for partition, target in asked.items() if not drops(partition, target)}
    if kept == asked:
        return None
    version = data.stat.version
    return SetData(ill.what, encode_reassignment(kept), version) if kept else Delete(ill.what, version)


def _config_change(ill: Ill, read: Read) -> RepairPlan:
    try:
        decode_config_change(ill.what, _found(read, ill.what).data)
    except MalformedZnode:
        return ZnodeRepair((_delete(read, ill.what),))
    return Unneeded()


def _of_request(ill: Ill, read: Read) -> RepairPlan:
    if _found(read, ill.what).stat.mzxid != ill.mzxid:
        return Impossible("it was written anew since it was found")
    return ZnodeRepair((_delete(read, ill.what),))


def _of_request_for_lethe(ill: Ill, read: Read) -> RepairPlan:
    holder = read[paths.CONTROLLER]
    if holder is not None and decode_controller(holder.data).admin is not None:
        return Unneeded()  # it is answered; the fence holds until the write
    return _of_request(ill, read)


_REPAIRS: Final[Mapping[IllKind, Callable[[Ill, Read], RepairPlan]]] = MappingProxyType(
    {
        IllKind.CONTROLLER_NOT_REGISTERED: _controller,
        IllKind.MARKER_WITHOUT_TOPIC: _of_absent_topic,
        IllKind.REASSIGNMENT_WITHOUT_TOPIC: _request_without_topic,
        IllKind.REASSIGNMENT_TO_ABSENT_BROKER: _request_to_absent_broker,
        IllKind.PREFERRED_ELECTION_LEFT: _of_request,
        IllKind.REQUEST_FOR_LETHE: _of_request_for_lethe,
        IllKind.CONFIG_CHANGE_UNREADABLE: _config_change,
        IllKind.CONFIG_WITHOUT_TOPIC: _of_absent_topic,
        IllKind.ACL_WITHOUT_TOPIC: _acl,
        IllKind.BROKER_CONFIG_WITHOUT_BROKER: _of_absent_broker,
        IllKind.THROTTLE_WITHOUT_REASSIGNMENT: _throttle,
    }
)
