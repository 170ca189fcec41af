"""Topics whose znode cannot be understood: what their deletion waits for, and which replicas it has. Pure.

The data of a marker can order the deletion of such a topic (`znodes.decode_deletion_marker`). Lethe's controller obeys
it, and takes as replicas the ISRs and all registered brokers. Kafka's controller ignores the data of markers. If a
Lethe controller has loaded the topic already, it deletes it from memory, whatever the znode says since.

    topic znode    marker            active controller    the topic waits for
    readable       any               any                  nothing here
    readable, and  any               Lethe's              NAME_RESERVED
    a topic of its
    name is in the
    trash
    any            any               Lethe's, which       READABLE_TRASH
                                     cannot read trash
    unreadable     without order     any                  READABLE_ZNODE, unless loaded already
    unreadable     with order        Lethe's              nothing here
    unreadable     with order        Kafka's              UNREADABLE_ORDERED
"""

from __future__ import annotations

from dataclasses import replace

from lethe.protocol.causes import CauseKind
from lethe.protocol.vocabulary import ReplicaAssignment
from lethe.protocol.zookeeper import paths
from lethe.survey.causes import ObservedCause
from lethe.survey.evidence import Evidence, ReportedTopic
from lethe.survey.views import TopicTree


def lethe_leads(evidence: Evidence) -> bool:
    """Return True if the active controller is Lethe's: `/controller` says so, or it has answered."""
    controller = evidence.survey.zookeeper.controller
    return evidence.reported.is_known or (controller is not None and controller.admin is not None)


def hold_cause(evidence: Evidence, there: TopicTree, reported: ReportedTopic | None) -> ObservedCause | None:
    """Return what the marked topic waits for because of its znode; None where that does not stop its deletion."""
    rows = {} if reported is None else {row.waiting_for: row for row in reported.replicas}
    for kind in (CauseKind.NAME_RESERVED, CauseKind.READABLE_TRASH):
        if (row := rows.get(kind)) is not None:
            return ObservedCause(kind, since_ms=evidence.changed_at_ms.get(there.name), detail=row.last_error)
    if (row := rows.get(CauseKind.READABLE_ZNODE)) is not None:
        return unreadable_cause(evidence, there.name, row.last_error or "the controller cannot read or understand it")
    if there.assignments is not None or (reported is not None and reported.phase != "held"):
        return None
    if there.name not in evidence.ordered:
        return unreadable_cause(evidence, there.name)
    if lethe_leads(evidence):
        return None
    return replace(unreadable_cause(evidence, there.name), kind=CauseKind.UNREADABLE_ORDERED)


def unreadable_cause(evidence: Evidence, topic: str, what: str | None = None) -> ObservedCause:
    """Return the cause for an unreadable znode since its last write. The detail is the survey's problem or else `what`,
    the controller's."""
    path = paths.topic(topic)
    seen = evidence.survey.zookeeper.problem_of(path)
    return ObservedCause(
        CauseKind.READABLE_ZNODE, path=path, since_ms=evidence.changed_at_ms.get(topic), detail=seen or what
    )


def with_deleted_replicas(evidence: Evidence, there: TopicTree, reported: ReportedTopic | None) -> TopicTree:
    """Return the tree with the replicas that a Lethe controller asks: those that it listed, or those that it would
    derive."""
    if there.assignments is not None:
        return there
    hosts: dict[int, dict[int, None]] = {}
    for row in reported.replicas if reported is not None else ():
        if row.partition is not None and row.broker is not None:
            hosts.setdefault(row.partition, {})[row.broker] = None
    if not hosts and there.name in evidence.ordered:
        registered = [broker.id for broker in evidence.survey.zookeeper.brokers]
        for partition in there.partition_znodes or ():
            state = there.states.get(partition)
            hosts[partition] = dict.fromkeys((*(() if state is None else state.isr), *registered))
    if not hosts:
        return there
    return replace(there, assignments={number: ReplicaAssignment(tuple(found)) for number, found in hosts.items()})
