"""Consumer groups as their coordinators store them: what they have committed, and whether they have members."""

from __future__ import annotations

from dataclasses import dataclass, field

from lethe.controller.core.effects import CommitOffsets, ReadOffsets
from lethe.controller.core.events import OffsetsCommitted, OffsetsRead
from lethe.protocol.kafka.control import UpdateMetadataRequest
from lethe.protocol.kafka.group_offsets import HAS_MEMBERS, CommittedOffset, GroupOffsets
from lethe.protocol.vocabulary import LEADER_DURING_DELETE


@dataclass
class ConsumerGroups:
    """All groups of a cluster."""

    committed: dict[str, dict[str, dict[int, CommittedOffset]]] = field(default_factory=dict)
    """By topic, group and partition."""
    with_members: dict[str, None] = field(default_factory=dict)
    problem: str | None = None
    """Why the coordinators give no complete answer."""
    hidden: dict[str, str] = field(default_factory=dict)
    """Topics for which the coordinators may hide what is committed, and why."""

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        self.committed.setdefault(topic, {}).setdefault(group, {})[partition] = CommittedOffset(offset)

    def apply(self, request: UpdateMetadataRequest) -> None:
        """Kafka's coordinators drop the offsets of topics whose tombstone they get."""
        for topic in request.topics:
            if any(row.leader == LEADER_DURING_DELETE for row in topic.partitions):
                self.committed.pop(topic.topic, None)

    def read(self, effect: ReadOffsets) -> OffsetsRead:
        if self.problem is not None:
            return OffsetsRead(effect.id, None, self.problem)
        hidden = {name: why for name, why in self.hidden.items() if name in effect.topics}
        found: dict[str, GroupOffsets] = {
            topic: {group: dict(offsets) for group, offsets in groups.items()}
            for topic, groups in self.committed.items()
            if topic in effect.topics and topic not in hidden
        }
        return OffsetsRead(effect.id, found, hidden=hidden)

    def take(self, effect: CommitOffsets) -> OffsetsCommitted:
        problems: dict[str, dict[str, str]] = {}
        for each in effect.groups:
            for topic, offsets in each.topics.items():
                known = self.committed.setdefault(topic, {}).setdefault(each.group, {})
                missing = {number: offset for number, offset in offsets.items() if number not in known}
                if missing and (self.problem is not None or each.group in self.with_members):
                    problems.setdefault(topic, {})[each.group] = self.problem or HAS_MEMBERS
                else:
                    known.update(missing)
        return OffsetsCommitted(effect.id, problems)


@dataclass
class SlowGroups(ConsumerGroups):
    """Their coordinators take so long that the test itself feeds the answer."""

    asked: list[int] = field(default_factory=list)
    """The ids of the questions."""
    commits: list[CommitOffsets] = field(default_factory=list)

    def read(self, effect: ReadOffsets) -> OffsetsRead:
        self.asked.append(effect.id)
        return OffsetsRead(-1, {})

    def take(self, effect: CommitOffsets) -> OffsetsCommitted:
        self.commits.append(effect)
        return OffsetsCommitted(-1, {})
