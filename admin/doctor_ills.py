"""Vocabulary of `lethe doctor`: the ills of a cluster, how bad they are, and how they are repaired.

A kind that has the name of a `findings.Reason` has the words of that reason; the others have their own.

    severity   error      clients or deletions suffer
               warning    left over: it does harm later, or keeps something from ending
               note       it may be wanted; nothing suffers
    way        znodes     a fenced write to ZooKeeper
               control    a controller of this process takes control as `lethe rescue` does, and hands it back
               person     a person has to do it; the remedy says what

To add an ill, add a member here and a rule in `doctor_rules`. docs/doctor.md is generated from this table.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.pipeline.report.remedies import remedy as remedy_of_finding
from lethe.pipeline.report.values import Finding
from lethe.protocol.causes import CauseKind
from lethe.protocol.findings import Reason
from lethe.protocol.remedies import FIX
from lethe.protocol.shell_words import for_shell, operand, option
from lethe.protocol.vocabulary import BrokerId
from lethe.survey.causes import ObservedCause, sentence, unblock


class Severity(enum.Enum):
    """How bad an ill is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class RepairWay(enum.Enum):
    """How an ill is repaired."""

    ZNODES = "znodes"
    CONTROL = "control"
    PERSON = "person"


class IllTexts(NamedTuple):
    """What is known of every ill of a kind. Without a remedy here, the one of the survey's finding is shown."""

    severity: Severity
    way: RepairWay
    sentence: str
    remedy: str = ""
    by_person: str = ""
    """The remedy where one of this kind cannot be repaired by `--fix`."""


_FIX_NAMED: Final = f"check that it is not wanted, then {FIX} --only {{code}}"
_DROPPED: Final = f"{FIX}: the broker is told to drop it; or restart broker {{broker}}"
_INTERNAL: Final = "restart broker {broker}: controllers leave ghosts of Kafka's internal topics alone"
_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_Z, _C, _P = RepairWay.ZNODES, RepairWay.CONTROL, RepairWay.PERSON


class IllKind(enum.Enum):
    """The ills in the order of the output: the controller, topics, requests, entities, caches, disks."""

    # The controller.
    NO_CONTROLLER = IllTexts(_E, _P, "no controller is active", CauseKind.NO_CONTROLLER.value.remedy)
    CONTROLLER_NOT_REGISTERED = IllTexts(
        _E,
        _Z,
        "the controller is not registered as a broker, so brokers cannot find it, and it may be gone",
        f"see whether its process lives; {FIX} removes /controller, and another broker is elected",
    )
    CONTROLLER_UNSTABLE = IllTexts(
        _E,
        _P,
        "control changes hands all the time: each controller fails on something that it reads",
        f"repair the half-deleted topics and unreadable znodes: {FIX}",
    )
    EPOCH_TOO_LOW = IllTexts(
        _E,
        _C,
        "most brokers have seen a higher controller epoch, and refuse every controller as stale",
        f"{FIX}: the epoch is raised above what brokers refuse",
    )
    BROKER_REFUSES_EPOCH = IllTexts(
        _E,
        _P,
        "the broker has seen a higher controller epoch than /controller_epoch says, and refuses the controller",
        "restart broker {broker}: it then takes the epoch that ZooKeeper says",
    )
    ZNODE_UNREADABLE = IllTexts(
        _E,
        _P,
        "the content of the znode cannot be understood",
        "save a copy of {path}, then repair it (docs/runbook.md, LetheTopicUnreadable, LetheBrokerUnreadable and "
        "LetheTrashUnreadable)",
    )
    # Topics and their deletion.
    HALF_DELETED_TOPIC = IllTexts(
        _E, _C, Reason.HALF_DELETED_TOPIC.value, f"{FIX}: its deletion is finished, as lethe rescue does"
    )
    INCOMPLETE_TOPIC = IllTexts(_E, _P, Reason.INCOMPLETE_TOPIC.value)
    STATE_OUTSIDE_ASSIGNMENT = IllTexts(
        _E,
        _C,
        "the state names a leader or ISR member that has no replica of the partition",
        f"{FIX}: it is taken out of the ISR",
        "only brokers without a replica are in sync, and may have the only copy: make one of them a replica "
        "(lethe partitions reassign)",
    )
    DELETION_WAITS = IllTexts(_E, _P, "a marked topic waits", "what lethe explain TOPIC says")
    DELETION_DISABLED = IllTexts(
        _W,
        _P,
        "topics are marked, and delete.topic.enable is false: a controller drops their markers",
        CauseKind.DISABLED.value.remedy,
    )
    DELETIONS_PAUSED = IllTexts(_N, _P, "deletions are paused", CauseKind.RESUMPTION.value.remedy)
    MARKER_WITHOUT_TOPIC = IllTexts(_W, _Z, Reason.MARKER_WITHOUT_TOPIC.value, FIX)
    ORDER_FOR_LETHE = IllTexts(
        _W,
        _P,
        "the marker has an order that only Lethe's controller obeys, and none of Lethe's is active",
        "have lethe controller take over; for a topic with an unreadable znode also lethe rescue --topic {topic}",
    )
    DEBT_OF_ABSENT_BROKER = IllTexts(
        _N,
        _P,
        "the broker is not registered, and owes the deletion of replicas",
        "start broker {broker} with its disks; if it never returns, lethe brokers forget {broker} (under Kafka's "
        "controller: lethe rescue --forget {broker})",
    )
    DEBT_UNPAID = IllTexts(
        _W,
        _P,
        "the broker is registered and owes the deletion of replicas, and none of Lethe's controllers is active",
        "lethe brokers settle {broker} has them deleted; so does lethe controller when it takes over",
    )
    # Requests to the controller.
    REASSIGNMENT_WITHOUT_TOPIC = IllTexts(_W, _Z, Reason.REASSIGNMENT_WITHOUT_TOPIC.value, FIX)
    REASSIGNMENT_TO_ABSENT_BROKER = IllTexts(
        _W,
        _Z,
        "the reassignment has not begun, and names a broker that is not registered",
        f"start the broker, or {FIX}: the request is withdrawn",
    )
    REASSIGNMENT_STUCK = IllTexts(
        _W,
        _C,
        "the reassignment adds a replica on a broker that is not registered, so it does not end",
        f"start the broker, or {FIX}: the reassignment is cancelled",
        "start the broker, or move the partition elsewhere (lethe partitions reassign): where it came from, no live "
        "broker is in sync",
    )
    PREFERRED_ELECTION_LEFT = IllTexts(
        _W,
        _Z,
        "no controller has taken the request, and it blocks the next one",
        f"{FIX}, then lethe partitions elect",
    )
    NOTIFICATIONS_UNREAD = IllTexts(
        _W,
        _C,
        "no controller has read the notifications",
        f"{FIX}: a controller that takes over reads what they are about",
    )
    REQUEST_FOR_LETHE = IllTexts(
        _W,
        _Z,
        "the request is for Lethe's controller, and none of Lethe's is active: it is carried out whenever one is",
        f"have lethe controller take over, or {FIX}: the request is withdrawn",
    )
    CONFIG_CHANGE_UNREADABLE = IllTexts(
        _W, _Z, "the notification of changed settings cannot be understood, so brokers ignore or fail on it", FIX
    )
    # What belongs to something that does not exist.
    CONFIG_WITHOUT_TOPIC = IllTexts(_N, _Z, Reason.CONFIG_WITHOUT_TOPIC.value, _FIX_NAMED)
    ACL_WITHOUT_TOPIC = IllTexts(_N, _Z, "the ACLs are of no existing topic", _FIX_NAMED)
    BROKER_CONFIG_WITHOUT_BROKER = IllTexts(
        _N, _Z, "the configuration is of a broker that is not registered and has no replica of any topic", _FIX_NAMED
    )
    THROTTLE_WITHOUT_REASSIGNMENT = IllTexts(
        _N, _Z, "replication of the topic is throttled, and no partition of it is being reassigned", _FIX_NAMED
    )
    # Metadata caches.
    CACHED_WITHOUT_TOPIC = IllTexts(
        _W,
        _C,
        Reason.CACHED_WITHOUT_TOPIC.value,
        _DROPPED,
        _INTERNAL,
    )
    CACHED_OTHER_INCARNATION = IllTexts(
        _W,
        _C,
        Reason.CACHED_OTHER_INCARNATION.value,
        _DROPPED,
        _INTERNAL,
    )
    IN_NO_CACHE = IllTexts(_E, _C, Reason.IN_NO_CACHE.value, f"{FIX}: every broker is told of every topic")
    # Disks.
    DIRECTORY_WITHOUT_TOPIC = IllTexts(_W, _P, Reason.DIRECTORY_WITHOUT_TOPIC.value)
    DIRECTORY_OF_OTHER_INCARNATION = IllTexts(_W, _P, Reason.DIRECTORY_OF_OTHER_INCARNATION.value)
    DIRECTORY_NOT_ASSIGNED = IllTexts(_W, _P, Reason.DIRECTORY_NOT_ASSIGNED.value)
    NOT_RECLAIMED_YET = IllTexts(_W, _P, Reason.NOT_RECLAIMED_YET.value)
    STRAY_DIRECTORY = IllTexts(_W, _P, Reason.STRAY_DIRECTORY.value)
    REPLICA_WITHOUT_DIRECTORY = IllTexts(_E, _P, Reason.REPLICA_WITHOUT_DIRECTORY.value)

    @property
    def code(self) -> str:
        """The name for programs and for `--only`: `half_deleted_topic`."""
        return self.name.lower()

    @property
    def reason(self) -> Reason | None:
        """The survey's reason of the same name."""
        return Reason.__members__.get(self.name)

    @property
    def sentence(self) -> str:
        """What is wrong, for people."""
        return self.value.sentence

    @property
    def severity(self) -> Severity:
        return self.value.severity

    @property
    def may_be_wanted(self) -> bool:
        """True if `--fix --yes` repairs it only where `--only` names it."""
        return self.severity is Severity.NOTE


@dataclass(frozen=True, slots=True)
class Ill:
    """One ill that was seen. `what` names it: a znode path, a directory, `broker 3`, or a topic."""

    kind: IllKind
    what: str
    topic: str | None = None
    broker: BrokerId | None = None
    partitions: tuple[int, ...] = ()
    detail: str = ""
    """The evidence, beyond what the kind's sentence says."""
    names: tuple[str, ...] = ()
    """Children of `what`, or keys in it, that are to be removed."""
    absent: tuple[int, ...] = ()
    """Brokers that it names and that are not registered."""
    mzxid: int | None = None
    """When `what` was written, by ZooKeeper, of a request that another write makes another one."""
    is_repairable: bool = True
    """False where this one has to be left to a person, although others of its kind are repaired."""
    cause: ObservedCause | None = None
    """What the topics of a DELETION_WAITS wait for."""

    @property
    def way(self) -> RepairWay:
        return self.kind.value.way if self.is_repairable else RepairWay.PERSON

    @property
    def key(self) -> tuple[object, ...]:
        """What two looks have to agree on. Stuck partitions of one topic are ills of their own: not each of them is
        repairable."""
        partitions = self.partitions if self.kind is IllKind.REASSIGNMENT_STUCK else ()
        return self.kind, self.what, self.topic, self.broker, partitions

    def sentence(self, now_ms: int) -> str:
        """Return what is wrong, with the evidence."""
        if self.cause is not None:
            return f"{sentence(self.cause, self.topic or '', now_ms)}{f' ({self.detail})' if self.detail else ''}"
        return self.kind.sentence + (f" ({self.detail})" if self.detail else "")

    @property
    def remedy(self) -> str:
        """Return what repairs it, with names quoted for a shell."""
        if self.cause is not None:
            return unblock(self.cause, self.topic or "")
        texts = self.kind.value
        said = texts.remedy if self.is_repairable else texts.by_person
        if not said:
            return self._remedy_of_survey()
        return for_shell(said).format(
            operand=operand(self.topic or ""),
            option=option("--topic", self.topic or ""),
            broker=self.broker,
            path=self.what,
            code=self.kind.code,
        )

    def _remedy_of_survey(self) -> str:
        finding = Finding(None, None, self.kind.code, self.what, self.topic, self.broker, None, None, None)
        said = remedy_of_finding(finding)
        return said.does if said.command is None else f"{said.does} {said.command}"
