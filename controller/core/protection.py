"""Protected topics: their deletion markers are removed, whoever wrote them, and the topics stay.

    the marked topic                                          result
    --------------------------------------------------------  ------------------------------------------------------
    is internal to Kafka                                      protected always
    matches a pattern of lethe.protected.topics               protected
    is protected, and queued already                          its deletion goes on
    is protected, and its marker says that it had begun       queued: some of its replicas may be deleted already
    is protected otherwise                                    refused: the marker is removed, the topic stays

`lethe.protected.topics` is a list of patterns in the properties file, or in the brokers' configuration in ZooKeeper,
which takes precedence (`configuration`). While it cannot be read there, no topic is newly queued, and only the markers
of internal topics are removed; the other markers are refused as soon as it can be read, in a pause too.

Only the controller's memory has which deletions have begun. So the controller notes it in the marker of a topic that is
protected while it is being deleted (`pausing`), for the controllers after it.
"""

from __future__ import annotations

from collections.abc import Iterable

from lethe.controller.core.context import Context
from lethe.controller.core.pausing import note_begun
from lethe.controller.core.step_context import StepContext
from lethe.protocol.topic_globs import protecting_glob


def protecting_pattern(context: Context, name: str) -> str | None:
    """Return the pattern that protects this topic; the name itself for an internal topic; None if it may be deleted."""
    is_unknown = context.cluster.dynamic.deletion_unknown is not None
    return protecting_glob(name, () if is_unknown else context.protected_topics)


def protected(context: Context, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of these existing topics that are protected and not queued."""
    cluster = context.cluster
    return tuple(
        name
        for name in names
        if (name in cluster.topics or name in cluster.quarantined_topics)
        and not cluster.is_queued(name)
        and protecting_pattern(context, name) is not None
    )


def note_queued(step: StepContext) -> None:
    """The patterns have changed: note in the markers of protected topics that their deletion has begun."""
    context = step.context
    if context.protected_topics:
        note_begun(step, (name for name in context.cluster.deletions if protecting_pattern(context, name) is not None))
