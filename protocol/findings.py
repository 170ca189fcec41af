"""The words for what is left over of topics: in which place, why it should not be there, and what is to be made of it.

The survey of a moment and the pipeline over many say the same with them. Programs read the codes, people the values.
"""

from __future__ import annotations

import enum


class Place(enum.Enum):
    """Where it is."""

    ZOOKEEPER = "zookeeper"
    CACHE = "cache"
    DISK = "disk"


class Standing(enum.Enum):
    """What is to be made of a finding."""

    LEFT_OVER = "left over"
    """It belongs to no topic that exists, and nobody will remove it by himself."""
    SET_ASIDE = "set aside"
    """A broker has kept it on purpose, because it could not tell whose bytes they are."""
    MISSING = "missing"
    """The reverse: something that a topic should have and has not."""
    INCOMPLETE = "incomplete"
    """A topic that nobody has marked, of whose tree a part is not there: it is being made, or was damaged. Only
    somebody who looks can tell."""
    PENDING = "pending"
    """A deletion that is under way: the topic is marked, or its bytes wait for their paced removal."""

    @property
    def code(self) -> str:
        """For programs: `left_over`."""
        return self.name.lower()


class Reason(enum.Enum):
    """Why it should not be there, as it is; the value is the sentence for people."""

    MARKED_TOPIC = "the topic is marked for deletion and not gone yet"
    MARKER_WITHOUT_TOPIC = "the deletion marker is of no existing topic"
    CONFIG_WITHOUT_TOPIC = "the configuration is of no existing topic"
    REASSIGNMENT_WITHOUT_TOPIC = "the reassignment names no existing topic"
    HALF_DELETED_TOPIC = "the marked topic's tree is incomplete, as an interrupted deletion leaves it"
    INCOMPLETE_TOPIC = "the topic's tree is incomplete and nobody has marked it: it is being made, or was damaged"
    CACHED_WITHOUT_TOPIC = "the broker tells clients of a topic that does not exist"
    CACHED_OTHER_INCARNATION = "the broker tells clients of an earlier topic of that name"
    IN_NO_CACHE = "the topic exists, and no broker tells clients of it"
    DIRECTORY_WITHOUT_TOPIC = "the directory is of no existing topic"
    DIRECTORY_OF_OTHER_INCARNATION = "the directory is of an earlier topic of that name"
    DIRECTORY_NOT_ASSIGNED = "the topic exists, but has no such replica on this broker"
    NOT_RECLAIMED_YET = "deleted, its bytes are not removed yet"
    STRAY_DIRECTORY = "set aside by the broker, which could not tell whose bytes they are"
    REPLICA_WITHOUT_DIRECTORY = "the replica is assigned to this live broker, which has no directory for it"

    @property
    def code(self) -> str:
        """For programs: `directory_without_topic`."""
        return self.name.lower()

    @property
    def place(self) -> Place:
        """Where such a thing is found."""
        return _PLACES.get(self, Place.ZOOKEEPER)

    @property
    def standing(self) -> Standing:
        return _STANDINGS.get(self, Standing.LEFT_OVER)


_STANDINGS = {
    Reason.MARKED_TOPIC: Standing.PENDING,
    Reason.NOT_RECLAIMED_YET: Standing.PENDING,
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
    Reason.STRAY_DIRECTORY: Place.DISK,
    Reason.REPLICA_WITHOUT_DIRECTORY: Place.DISK,
}
