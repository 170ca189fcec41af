"""The verdict on a cluster at rest: a pure comparison of what ZooKeeper's transactions demand with what is there.

    demanded of                what is there          finding
    a deleted topic            any znode, an entry in a cache, any directory                    residue
    a living topic             no znode, no leader, a cache without it, a missing directory     missing
    any broker                 a cache without another broker or with another controller        missing
    any topic                  a broker or a server that did not answer                         unseen

A directory that a reassignment left on a broker that was not registered is expected to stay (decision 0016), and one
that a Kafka broker has half created (`half_created`): they are listed apart, and are no residue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.disks import SeenDirectory
from tests.chaos.half_created import HalfCreated
from tests.chaos.history import (
    CONFIGS,
    CONTROLLER,
    MARKERS,
    NO_ID,
    REASSIGN,
    TOPICS,
    History,
    Incarnation,
    decode_topic_id,
)
from tests.chaos.raw_kafka import SeenCache, SeenTopic

RESIDUE, MISSING, UNSEEN = "residue", "missing", "unseen"
PLACES = ("zookeeper", "caches", "disks")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be. `place`: zookeeper, caches, disks or processes."""

    kind: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that was read. A cache is None where its broker did not answer."""

    znodes: Mapping[str, bytes]
    """Data by path: below the paths that hold topics, and of single znodes."""
    caches: Mapping[int, SeenCache | None]
    directories: Sequence[SeenDirectory]
    half_created: frozenset[HalfCreated] = frozenset()


@dataclass(slots=True)
class Verdict:
    """What is wrong, and what stays by a documented limit."""

    findings: list[Finding] = field(default_factory=list)
    left_by_moves: list[str] = field(default_factory=list)
    left_by_kafka: list[str] = field(default_factory=list)


def judge(history: History, seen: Seen) -> Verdict:
    """Return all findings, sorted by place."""
    verdict = Verdict()
    living = history.living()
    verdict.findings += _znodes(living, seen.znodes)
    verdict.findings += _caches(living, seen.caches)
    verdict.findings += _memberships(seen.znodes.get(CONTROLLER), seen.caches)
    verdict.findings += _directories(history, living, seen, verdict)
    return verdict


# --- ZooKeeper --------------------------------------------------------------------------------------------------------


def _znodes(living: Mapping[str, Incarnation], znodes: Mapping[str, bytes]) -> Iterator[Finding]:
    for path in sorted(znodes):
        for root in (TOPICS, CONFIGS):
            if path.startswith(root) and path.removeprefix(root).partition("/")[0] not in living:
                yield Finding(RESIDUE, "zookeeper", f"{path} of a topic that is deleted")
        if path.startswith(MARKERS) or path == REASSIGN:
            yield Finding(RESIDUE, "zookeeper", f"{path} is left")
    for name, incarnation in living.items():
        yield from _living_znodes(incarnation, znodes.get(TOPICS + name), znodes)


def _living_znodes(incarnation: Incarnation, data: bytes | None, znodes: Mapping[str, bytes]) -> Iterator[Finding]:
    name = incarnation.name
    if data is None or CONFIGS + name not in znodes:
        yield Finding(MISSING, "zookeeper", f"topic {name} lives and lacks its znode or its configuration")
        return
    znode = json.loads(data)
    if decode_topic_id(znode.get("topic_id", "")) != incarnation.topic_id:
        yield Finding(MISSING, "zookeeper", f"topic {name} has another id than {incarnation.topic_id}")
    if znode.get("adding_replicas") or znode.get("removing_replicas"):
        yield Finding(RESIDUE, "zookeeper", f"topic {name} is still being reassigned")
    for partition, replicas in incarnation.replicas.items():
        state = znodes.get(f"{TOPICS}{name}/partitions/{partition}/state")
        if state is None:
            yield Finding(MISSING, "zookeeper", f"{name}-{partition} has no state")
            continue
        said = json.loads(state)
        leader, isr = said["leader"], said["isr"]
        if leader not in isr or sorted(isr) != sorted(replicas):
            yield Finding(
                MISSING, "zookeeper", f"{name}-{partition} has leader {leader}, ISR {isr}, replicas {list(replicas)}"
            )


# --- caches -----------------------------------------------------------------------------------------------------------


def _caches(living: Mapping[str, Incarnation], caches: Mapping[int, SeenCache | None]) -> Iterator[Finding]:
    for broker, cache in sorted(caches.items()):
        if cache is None:
            yield Finding(UNSEEN, "caches", f"broker {broker} does not answer Metadata")
            continue
        for name, topic in sorted(cache.topics.items()):
            if name not in living:
                yield Finding(RESIDUE, "caches", f"broker {broker} shows topic {name}, which is deleted")
            elif topic.topic_id != living[name].topic_id:
                yield Finding(RESIDUE, "caches", f"broker {broker} shows topic {name} under the id {topic.topic_id}")
        for name, incarnation in living.items():
            yield from _cached(broker, incarnation, cache.topics.get(name))


def _cached(broker: int, incarnation: Incarnation, topic: SeenTopic | None) -> Iterator[Finding]:
    if topic is None or topic.error:
        error = "nothing" if topic is None else f"error {topic.error}"
        yield Finding(MISSING, "caches", f"broker {broker} shows {error} of topic {incarnation.name}, which lives")
        return
    for partition, replicas in incarnation.replicas.items():
        found = topic.partitions.get(partition)
        if found is None or found.error or found.leader < 0 or found.replicas != replicas:
            yield Finding(
                MISSING,
                "caches",
                f"broker {broker} shows {incarnation.name}-{partition} as {found}; its replicas are {list(replicas)}",
            )
    for partition in sorted(topic.partitions.keys() - incarnation.replicas.keys()):
        yield Finding(RESIDUE, "caches", f"broker {broker} shows {incarnation.name}-{partition}, which is none")


def _memberships(holder: bytes | None, caches: Mapping[int, SeenCache | None]) -> Iterator[Finding]:
    """Compare the brokers and the controller that each broker shows; at rest every broker is up."""
    if holder is None:
        yield Finding(MISSING, "zookeeper", "no controller is active")
        return
    controller = json.loads(holder)["brokerid"]
    for broker, cache in sorted(caches.items()):
        if cache is not None:
            lacking = sorted(caches.keys() - set(cache.brokers))
            if lacking or cache.controller != controller:
                text = f"broker {broker} lacks brokers {lacking}, and shows controller {cache.controller}"
                yield Finding(MISSING, "caches", f"{text}; it is {controller}")


# --- disks ------------------------------------------------------------------------------------------------------------


def _directories(
    history: History, living: Mapping[str, Incarnation], seen: Seen, verdict: Verdict
) -> Iterator[Finding]:
    by_id = history.by_id()
    wanted = {
        (broker, incarnation.topic_id, partition): 0
        for incarnation in living.values()
        for partition, replicas in incarnation.replicas.items()
        for broker in replicas
    }
    for each in seen.directories:
        key = (each.broker, each.topic_id, each.partition)
        incarnation = by_id.get(each.topic_id)
        if not each.state and key in wanted and living.get(each.topic) is incarnation:
            wanted[key] += 1
        elif (
            incarnation is not None
            and each.state in ("", "stray")
            and (each.partition, each.broker) in incarnation.moved_from_dead
        ):
            verdict.left_by_moves.append(str(each.path))
        elif _is_blank(each) and (each.broker, each.topic, each.partition) in seen.half_created:
            verdict.left_by_kafka.append(str(each.path))
        else:
            what = "without an id" if each.topic_id == NO_ID else f"of id {each.topic_id}"
            yield Finding(RESIDUE, "disks", f"{each.path} {what} is left on broker {each.broker}")
    for (broker, topic_id, partition), count in wanted.items():
        if count != 1:
            name = f"{by_id[topic_id].name}-{partition}"
            yield Finding(MISSING, "disks", f"broker {broker} has {count} directories of {name}, which lives there")


def _is_blank(directory: SeenDirectory) -> bool:
    return not directory.state and directory.topic_id == NO_ID and not any(directory.segments.values())
