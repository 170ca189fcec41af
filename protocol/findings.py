"""Vocabulary of leftovers: where a thing was found, why it should not be there, and how to treat it.

The survey and the pipeline share it. Programs read the codes, people the values.
"""

from __future__ import annotations

import enum
from typing import Final

NO_PARTITIONS: Final = "its znode partitions is missing"
"""Detail of INCOMPLETE_TOPIC: no controller has created the topic, or a deletion whose marker is gone has begun."""


class Place(enum.Enum):
    """Where a leftover was found."""

    ZOOKEEPER = "zookeeper"
    CACHE = "cache"
    DISK = "disk"


class Standing(enum.Enum):
    """How to treat a finding."""

    LEFT_OVER = "left over"
    """It belongs to no existing topic and is not removed automatically."""
    SET_ASIDE = "set aside"
    """A broker has kept it on purpose, because the broker could not tell which topic it belongs to."""
    MISSING = "missing"
    """The reverse: a topic lacks something that it should have."""
    INCOMPLETE = "incomplete"
    """A part of an unmarked topic's tree is missing: the topic is being created, or it was damaged. A person has to
    decide."""
    PENDING = "pending"
    """A deletion in progress: the topic is marked, its bytes wait for their paced removal, or a broker owes them."""

    @property
    def code(self) -> str:
        """The name for programs: `left_over`."""
        return self.name.lower()


class Reason(enum.Enum):
    """Why it should not be there as it is; the value is the sentence for people."""

    MARKED_TOPIC = "the topic is marked for deletion and not gone yet"
    MARKER_WITHOUT_TOPIC = "the deletion marker is of no existing topic"
    CONFIG_WITHOUT_TOPIC = "the configuration is of no existing topic"
    REASSIGNMENT_WITHOUT_TOPIC = "the reassignment names no existing topic"
    HALF_DELETED_TOPIC = "the marked topic's tree is incomplete, as an interrupted deletion leaves it"
    INCOMPLETE_TOPIC = (
        "the topic's tree is incomplete and it is not marked for deletion: it is being created, or was damaged"
    )
    CACHED_WITHOUT_TOPIC = "the broker shows clients a topic that does not exist"
    CACHED_OTHER_INCARNATION = "the broker shows clients an earlier topic of that name"
    IN_NO_CACHE = "the topic exists, and no broker shows it to clients"
    DIRECTORY_WITHOUT_TOPIC = "the directory is of no existing topic"
    DIRECTORY_OF_OTHER_INCARNATION = "the directory is of an earlier topic of that name"
    DIRECTORY_NOT_ASSIGNED = "the topic exists, but has no such replica on this broker"
    NOT_RECLAIMED_YET = "deleted, its bytes are not removed yet"
    DIRECTORY_OWED = "the broker owes its deletion: Lethe's controller has it deleted when the broker is back"
    STRAY_DIRECTORY = "quarantined by the broker: it could not identify the topic of these bytes"
    REPLICA_WITHOUT_DIRECTORY = "the replica is assigned to this live broker, which has no directory for it"

    @property
    def code(self) -> str:
        """The name for programs: `directory_without_topic`."""
        return self.name.lower()

    @property
    def place(self) -> Place:
        """Where such a finding occurs."""
        return _PLACES.get(self, Place.ZOOKEEPER)

    @property
    def standing(self) -> Standing:
        return _STANDINGS.get(self, Standing.LEFT_OVER)


_STANDINGS = {
    Reason.MARKED_TOPIC: Standing.PENDING,
    Reason.NOT_RECLAIMED_YET: Standing.PENDING,
    Reason.DIRECTORY_OWED: Standing.PENDING,
    Reason.STRAY_DIRECTORY: Standing.SET_ASIDE,
    Reason.INCOMPLETE_TOPIC: Standing.INCOMPLETE,
    Reason.IN_NO_CACHE: Standing.MISSING,
    Reason.REPLICA_WITHOUT_DIRECTORY: Standing.MISSING,
}

_PLACES = {
    Reason.CACHED_WITHOUT_TOPIC: Place.CACHE,
    Reason.CACHED_OTHER_INCARNATION: Place.CACHE,
    Reason.IN_NO_CACHE: Place.CACHE,
    Reason.DIRECTORY_WITHOUT_TOPIC: Place.DISK,
    Reason.DIRECTORY_OF_OTHER_INCARNATION: Place.DISK,
    Reason.DIRECTORY_NOT_ASSIGNED: Place.DISK,
    Reason.NOT_RECLAIMED_YET: Place.DISK,
    Reason.DIRECTORY_OWED: Place.DISK,
    Reason.STRAY_DIRECTORY: Place.DISK,
    Reason.REPLICA_WITHOUT_DIRECTORY: Place.DISK,
}
