"""Proof that a replica is gone from a broker that was sent no LeaderAndIsr for it.

A broker answers StopReplica with NONE for a replica that it does not host, also if the replica is in a failed log
directory. A LeaderAndIsr before it would show the failure, but makes the broker create again what it has already
deleted. DescribeLogDirs shows it without that. A failed log directory stays failed until the broker's process ends. So
a directory that works after the StopReplica also worked during the StopReplica.

    to broker 3 under epoch 17           answer                what it proves
    StopReplica, delete orders-0         NONE                  nothing yet
    DescribeLogDirs                      /a and /b work        no directory of that process has failed
    StopReplica without partitions       NONE                  that process is still epoch 17: orders-0 is gone

DescribeLogDirs carries no broker epoch, so a broker answers it even after a restart with the directory repaired. The
third request, the *fence*, carries the epoch: a restarted broker refuses it with STALE_BROKER_EPOCH.

A failed directory, an error, or no directory at all (how brokers before 2.7 refuse) proves nothing. From then on,
replicas are announced to this broker incarnation by LeaderAndIsr. A broker with a failed directory creates no log for
that: it answers KAFKA_STORAGE_ERROR for every replica that it does not find.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import LogDirEvidence, LogDirsQuery, UnprovenStop
from lethe.controller.core.events import LogDirsDescribed, StopReplicaResponseReceived
from lethe.controller.core.mutation import note_confirmations
from lethe.controller.core.partition_sets import Bits, chosen
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_deletion import FailReplicaDeletions, ResumeDeletions
from lethe.controller.core.topic import ReplicaConfirmation
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.kafka.control import StopReplicaRequest
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.queries import DescribeLogDirsRequest, DescribeLogDirsResponse
from lethe.protocol.vocabulary import BrokerId, PartitionReplica

NO_LOOK = "the answer to StopReplica was not followed by a look at the log directories"


def expect(context: Context, unasked: Mapping[BrokerId, Mapping[str, Bits]]) -> None:
    """Require a proof by log directories for the next answer to StopReplica for these replicas."""
    for broker, topics in unasked.items():
        marker = ReplicaConfirmation(
            context.cluster.brokers[broker].epoch, context.last_request_id, confirmed=False, by_look=True
        )
        for name, bits in topics.items():
            note_confirmations(context.cluster, name, broker, bits, marker)


def look(step: StepContext, brokers: Iterable[BrokerId]) -> None:
    """Send these brokers DescribeLogDirs and a fence, behind the requests that are queued already."""
    context = step.context
    cluster = context.cluster
    known = tuple(broker for broker in brokers if broker in cluster.brokers)
    question = DescribeLogDirsRequest(topics=())
    fence = StopReplicaRequest(context.config.controller_id, cluster.epoch, ())
    asked = [step.send(broker, question) for broker in known]
    fences = [step.send(broker, fence) for broker in known]
    for broker, request_id, fence_id in zip(known, asked, fences, strict=True):
        cluster.log_dir_evidence.setdefault(broker, LogDirEvidence()).looks.append(LogDirsQuery(request_id, fence_id))


def await_proof(context: Context, event: StopReplicaResponseReceived, replicas: tuple[PartitionReplica, ...]) -> bool:
    """Keep answers until a later DescribeLogDirs proves them. Return False if none was sent after them."""
    evidence = context.cluster.log_dir_evidence.get(event.broker)
    if evidence is None or not any(each.request_id > event.request_id for each in evidence.looks):
        return False
    evidence.unproven.append(UnprovenStop(event.request_id, replicas))
    return True


def described(step: StepContext, event: LogDirsDescribed) -> None:
    """Note that no log directory has failed, or announce the replicas whose deletion this answer cannot prove."""
    context = step.context
    evidence = context.cluster.log_dir_evidence.get(event.broker)
    found = None if evidence is None else next((e for e in evidence.looks if e.request_id == event.request_id), None)
    if evidence is None or found is None:
        return
    problem = _problem(event.response)
    if problem is None:
        found.is_healthy = True
        return
    if event.response.error == ErrorCode.NONE:
        # `answers` records errors of a whole answer.
        step.refuse(f"broker/{event.broker}", "proving deletions by its log directories", problem)
    evidence.must_announce = True
    replicas = _taken(context, event.broker, evidence, found)
    topics = dict.fromkeys(r.topic for _, each in replicas for r in each)
    topics |= dict.fromkeys(chosen(context.cluster.replicas_on((event.broker,)), partial(_waiting, context)))
    step.do(
        FailReplicaDeletions(tuple(r for _, each in replicas for r in each)),
        ResumeDeletions(tuple(topics), unblock=True),
    )


def fenced(
    step: StepContext, event: StopReplicaResponseReceived
) -> tuple[list[tuple[int, tuple[PartitionReplica, ...]]], str | None]:
    """Return the replicas that the answer to a fence settles, by id of their StopReplica, and the problem.

    The problem is None if these replicas are gone."""
    context = step.context
    evidence = context.cluster.log_dir_evidence.get(event.broker)
    found = None if evidence is None else next((e for e in evidence.looks if e.fence_id == event.request_id), None)
    if evidence is None or found is None:
        return [], None
    evidence.looks.remove(found)
    replicas = _taken(context, event.broker, evidence, found)
    if event.response.error != ErrorCode.NONE:
        return replicas, error_name(event.response.error)
    return replicas, None if found.is_healthy else NO_LOOK


def _taken(
    context: Context, broker: BrokerId, evidence: LogDirEvidence, found: LogDirsQuery
) -> list[tuple[int, tuple[PartitionReplica, ...]]]:
    """Remove and return the answers before this DescribeLogDirs, without replicas that were settled otherwise."""
    before = [each for each in evidence.unproven if each.request_id < found.request_id]
    evidence.unproven = [each for each in evidence.unproven if each.request_id > found.request_id]
    epoch = context.cluster.brokers[broker].epoch
    return [
        (n, tuple(r for r in replicas if awaited(context, r.topic, broker, epoch, n) >> r.partition & 1))
        for n, replicas in before
    ]


def awaited(context: Context, name: str, broker: BrokerId, broker_epoch: int, request_id: int) -> Bits:
    """Return the topic's replicas whose deletion waits for the broker's answer to this StopReplica to be proven."""
    topic = context.cluster.topics.get(name)
    if topic is None or not context.cluster.is_queued(name):
        return 0
    begun = topic.in_states(broker, (ReplicaState.DELETION_STARTED,))
    return begun & topic.announced(
        broker, lambda it: it.by_look and it.broker_epoch == broker_epoch and it.request_id < request_id
    )


def _waiting(context: Context, name: str, broker: BrokerId, partitions: Bits) -> Bits:
    if not context.cluster.is_queued(name):
        return 0
    return partitions & ~context.cluster.topics[name].in_states(broker, (ReplicaState.DELETION_SUCCESSFUL,))


def _problem(response: DescribeLogDirsResponse) -> str | None:
    """Return why the answer does not prove that every log directory works; None if it does."""
    if response.error != ErrorCode.NONE:
        return error_name(response.error)
    if not response.log_dirs:
        return "it names no log directory"
    return next((f"{each.path}: {error_name(each.error)}" for each in response.log_dirs if each.error), None)
