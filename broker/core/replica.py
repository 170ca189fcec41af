"""One replica on the disks of an agent."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from lethe.protocol.vocabulary import NO_BROKER, TopicId

NO_CURRENT_LEADER_EPOCH: Final = -1


class ReplicaState(enum.Enum):
    LOADED = "loaded"
    """On disk, but no LeaderAndIsr of this run has named it: for Kafka's rules it is not hosted."""
    HOSTED = "hosted"
    """Accepted by a LeaderAndIsr of this run."""
    OFFLINE = "offline"
    """In a log directory that has failed, or possibly so: answers KAFKA_STORAGE_ERROR until the agent restarts."""


class Replica(NamedTuple):
    """One partition on this broker."""

    state: ReplicaState
    log_dir: str | None
    """None for an offline replica that was never found: it may lie in a directory that failed before it was read."""
    topic_id: TopicId | None = None
    id_readable: bool = True
    size_bytes: int = 0
    files: int = 0
    segment_bytes: int = 0
    """Of its `.log` files, which is what Kafka tells as a replica's size."""
    leader: int = NO_BROKER
    leader_epoch: int = NO_CURRENT_LEADER_EPOCH
    partition_epoch: int = -1
    filled: bool = False
    """Whether it holds segments. An empty one is filled when it leads or has caught up."""
    fetches: bool = False
    """It follows the leader that the last LeaderAndIsr named; ended by StopReplica."""
    proposes: bool = False
    """It leads and may ask for ISR members; ended by StopReplica and by outcome GIVEN_UP."""
    isr: tuple[int, ...] = ()
    assignment: tuple[int, ...] = ()
    """All its replicas, preferred first; like the ISR from the last LeaderAndIsr."""

    @property
    def has_followers_outside_isr(self) -> bool:
        return any(broker not in self.isr for broker in self.assignment)

    def filled_with(self, size_bytes: int, files: int, segment_bytes: int) -> Replica:
        """The replica after these files were added."""
        return self._replace(
            size_bytes=self.size_bytes + size_bytes,
            files=self.files + files,
            segment_bytes=self.segment_bytes + segment_bytes,
            filled=True,
        )
