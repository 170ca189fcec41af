"""Vocabulary of causes: why a topic that was to be deleted still exists.

Every program that names a cause refers to a member of `CauseKind`: the controller, its documents, board and metrics,
`lethe explain`, and the pipeline. So the same cause has the same name, sentence and remedy everywhere.

    name       BROKER_TO_RETURN: in the controller's documents, and the label `reason` of its metrics
    code       broker_to_return: in what commands print with --json, and in the pipeline's tables
    sentence   "waits for broker {broker}, which is not registered in ZooKeeper{since}": follows the topic's name
    remedy     "start broker {broker} with its disks …": a command, or what a person can do

To add a cause, add a member here, and to `cause_groups` if a controller reports it. Tests name the views that lack it.

Sentence and remedy may contain these fields:

    {topic}, {broker}                       always given
    {partitions}                            "its partitions" if unknown
    {path}, {place}, {since}, {detail}      empty if unknown; otherwise they start with their own separator
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.protocol import remedies
from lethe.protocol.shell_words import for_shell, operand, option


class CauseTexts(NamedTuple):
    """The texts of a cause."""

    sentence: str
    remedy: str


class CauseKind(enum.Enum):
    """The causes in display order: those that hold every deletion, then one topic, then its brokers."""

    # What holds every deletion.
    NO_CONTROLLER = CauseTexts(
        "waits for a controller: none is active",
        "start one (lethe controller, or a Kafka broker in ZooKeeper mode)",
    )
    CONTROLLER_UNSEEN = CauseTexts(
        "may wait for a controller: whether one is active is not known, because{path} cannot be read or "
        "understood{detail}",
        "check the ACL and the content of{path}",
    )
    KRAFT = CauseTexts(
        "cannot be deleted: a KRaft controller controls the cluster, and no controller acts on markers in ZooKeeper",
        "delete it through a broker, or end the migration first",
    )
    CONTROLLER_SILENT = CauseTexts(
        "waits for controller {broker}, which holds /controller and cannot be talked to{detail}",
        "see whether the process of controller {broker} is stopped or hangs, and restart it; or have another "
        "controller do it: lethe rescue",
    )
    CONTROLLER_LATE = CauseTexts(
        "waits for controller {broker}: no broker with replicas of it is missing, and it is still there{since}{detail}",
        "if nothing moves, see its controller.log, or have another one do it: lethe rescue",
    )
    RESUMPTION = CauseTexts(
        "waits for deletions to be resumed: they are paused{since}{detail}",
        "lethe topics resume-deletions",
    )
    CONFIGURATION = CauseTexts(
        "waits for the brokers' configuration{path} to be readable: the controller cannot tell whether topics may be "
        "deleted, and deletes none{since}{detail}",
        f"{remedies.MEND}; then have the controller read it again: lethe controller-resign. {remedies.THEN_ALL_GO}",
    )
    CONFIGURATION_UNREAD = CauseTexts(
        "may wait for the brokers' configuration{path} to be readable{detail}: a Lethe controller that takes over now "
        "cannot tell whether topics may be deleted, and deletes none",
        f"{remedies.MEND}; where a Lethe controller leads, have it read it again: lethe controller-resign. "
        f"{remedies.THEN_ALL_GO}",
    )
    DISABLED = CauseTexts(
        "is not deleted because delete.topic.enable is false{place}{detail}: a controller drops its marker{since}",
        "set it to true, then delete the topic again",
    )
    PROTECTED = CauseTexts(
        "is not deleted because it is protected{place}{detail}: Lethe's controller drops its marker{since}",
        "if it is to go, change lethe.protected.topics{place}, then delete it again; internal topics always stay",
    )
    # What holds this topic.
    OTHER_INCARNATION = CauseTexts(
        "is not deleted because its marker names an earlier topic of this name: Lethe's controller drops the "
        "marker{since}{detail}",
        "nothing to keep this topic; to delete it too: lethe topics delete --topic {topic}",
    )
    NOT_CHOSEN = CauseTexts(
        "waits for a controller that deletes it: this one is here for other topics{since}",
        "nothing: another controller takes it up when this one gives control back",
    )
    PACE = CauseTexts("waits for its turn: deletions are paced{since}{detail}", remedies.RAISE_PACE)
    READABLE_ZNODE = CauseTexts(
        "waits for its znode{path} to be readable{since}{detail}",
        remedies.REPAIR_ZNODE,
    )
    NAME_RESERVED = CauseTexts(
        "waits for another topic of its name to leave the trash, whose records its deletion would remove{since}",
        "remove the topic's znodes below /brokers/topics by hand; then lethe topics undelete {topic} brings the other "
        "one back",
    )
    READABLE_TRASH = CauseTexts(
        "waits until the controller can tell whether a topic in the trash has its name{since}{detail}",
        "repair what is named below /lethe/trash, or give the controller access to it; then have it read again: "
        "lethe controller-resign",
    )
    UNREADABLE_ORDERED = CauseTexts(
        "waits for Lethe's controller: its marker requests its deletion although its znode{path} cannot be read"
        "{since}{detail}, and only Lethe's controller obeys such a marker",
        "have lethe controller take over, or repair the znode",
    )
    ORDERS = CauseTexts(
        "waits for its deletion marker{path} to be readable: it may order to keep something{since}{detail}",
        "write it again: lethe topics undelete {topic}, then lethe topics delete --topic {topic}",
    )
    TRASH = CauseTexts(
        "stays in service until it is in the trash{since}{detail}",
        "nothing, unless an error is shown, which has to end first; to keep the topic: lethe topics undelete {topic}; "
        "to delete it without the trash: that, then lethe topics delete --grace 0 {topic}",
    )
    REASSIGNMENT = CauseTexts(
        "waits for the reassignment of {partitions} to end{since}{detail}",
        "start the brokers that replicas move to, or lethe partitions reassign --cancel {topic}; Lethe's controller "
        "ends it automatically",
    )
    MARKER_WITHOUT_TOPIC = CauseTexts(
        "has only its deletion marker left: there is no such topic in ZooKeeper",
        "an active controller drops the marker automatically",
    )
    HALF_DELETED = CauseTexts(
        "is half deleted: its tree in ZooKeeper is incomplete{detail}",
        "an active controller finishes it",
    )
    INCOMPLETE = CauseTexts(
        "has an incomplete tree in ZooKeeper{detail}: it is being created, or it was damaged",
        "nothing, while an active controller creates it; otherwise look at{path} and below",
    )
    UNREADABLE = CauseTexts(
        "has a znode{path} that cannot be read or understood{since}{detail}",
        "check its ACL and its content; until then the topic's state is unknown",
    )
    # Brokers.
    BROKER_TO_RETURN = CauseTexts(
        "waits for broker {broker}, which is not registered in ZooKeeper{since}",
        remedies.BRING_BACK,
    )
    CANNOT_BE_OWED = CauseTexts(
        "waits for broker {broker}, which is not registered in ZooKeeper and cannot owe its replicas: nothing "
        "would tell them from those of a later topic of this name{since}{detail}",
        remedies.BRING_BACK,
    )
    REGISTRATION_UNREADABLE = CauseTexts(
        "waits for broker {broker}, whose registration /brokers/ids/{broker} cannot be read or used{since}{detail}",
        "check the ACL and the content of /brokers/ids/{broker}; broker {broker} writes it anew when it is restarted",
    )
    BROKER_TO_FINISH_SHUTDOWN = CauseTexts(
        "waits for broker {broker}, which is shutting down{since}{detail}",
        "nothing, if it answers before it goes; otherwise start it again",
    )
    LOG_DIRECTORY = CauseTexts(
        "waits for broker {broker}, whose log directory{path} has failed{since}{detail}",
        "repair the directory and restart the broker",
    )
    BROKER_SILENT = CauseTexts(
        "waits for broker {broker}, which is registered but does not answer{since}{detail}",
        "see whether the process of broker {broker} is stopped or hangs, and restart it; the controller repeats the "
        "request automatically",
    )
    BROKER_UNREACHABLE = CauseTexts(
        "waits for broker {broker}, which is registered but cannot be reached{since}{detail}",
        "see whether its process runs and its listener can be reached; the controller repeats the request",
    )
    BROKER_REFUSES_EPOCH = CauseTexts(
        "waits for broker {broker}, which has seen a higher controller epoch than /controller_epoch says and refuses "
        "the controller as stale{since}{detail}",
        "restart broker {broker}: it then takes the epoch that ZooKeeper says; where most brokers refuse, Lethe's "
        "controller raises the epoch automatically",
    )
    BROKER_REFUSES_CONTROLLER = CauseTexts(
        "waits for broker {broker}, whose authorizer refuses the controller{since}{detail}",
        "grant the controller's principal ClusterAction on the cluster, or leave control to Kafka: "
        "lethe controller-resign",
    )
    BROKER_NOT_SPOKEN = CauseTexts(
        "waits for broker {broker}, which has no listener that the controller is configured for{since}{detail}",
        "name a listener of broker {broker} in control.plane.listener.name or inter.broker.listener.name of the "
        "controller, and its protocol in listener.security.protocol.map; or leave control to Kafka: "
        "lethe controller-resign",
    )
    BROKER_NO_ACCESS = CauseTexts(
        "waits for broker {broker}, where TLS or the login of the controller fails{since}{detail}",
        "do what the error says: the controller or broker {broker} has a wrong certificate, user or password; the "
        "controller tries again automatically, and reads files with certificates and passwords again",
    )
    BROKER_UNASKABLE = CauseTexts(
        "may wait for broker {broker}, which lethe cannot ask{detail}",
        "look at the broker's log and disks; --command-config says how lethe connects to brokers",
    )
    BROKER_NOT_ASKED = CauseTexts(
        "waits for broker {broker}, which could not be asked when it was last tried{since}",
        "lethe explain {topic}",
    )
    BROKER_ERROR = CauseTexts(
        "waits for broker {broker}, which answers with an error{since}{detail}",
        "repair what the broker's log reports; Lethe's controller repeats the request automatically",
    )
    ANSWER = CauseTexts(
        "waits for broker {broker}, which has been asked and has not answered{since}{detail}",
        remedies.IF_IT_LASTS,
    )
    TOMBSTONE_ANSWER = CauseTexts(
        "waits for broker {broker} to confirm that its metadata cache has dropped the topic{since}{detail}",
        remedies.IF_IT_LASTS,
    )
    TOMBSTONE_OF_SOME_BROKER = CauseTexts(
        "waits for a broker to confirm that its metadata cache has dropped the topic{since}",
        "lethe explain {topic}",
    )
    OTHER_REPLICAS = CauseTexts(
        "waits for answers about its other replicas first{since}",
        "nothing: it continues when brokers have answered for the other replicas",
    )
    TURN = CauseTexts(
        "waits for the controller, which has not reached it yet{since}",
        "nothing: the controller is at work",
    )
    ZNODES = CauseTexts(
        "waits for the controller to remove its znodes{since}{detail}",
        "nothing, unless an error is shown: then do what it says; the controller repeats it automatically",
    )
    STILL_STORED = CauseTexts(
        "is still stored on broker {broker} ({partitions}), which is alive and answers",
        remedies.ASKED_AGAIN,
    )
    # Going on.
    HELD = CauseTexts("is held back{detail}", "lethe explain {topic}")
    MARKED = CauseTexts("is marked for deletion and not gone yet", "lethe rescue --topic {topic}")
    IN_PROGRESS = CauseTexts(
        "is being deleted: nothing that could be seen is wrong, the controller has not finished{detail}",
        "nothing; if it lasts, see the controller's log",
    )
    NOT_RECORDED = CauseTexts(
        "is being deleted, and the journal does not say what it waits for", "lethe explain {topic}"
    )
    IN_MOTION = CauseTexts("has changed during the survey", "run the command again")
    NOT_MARKED = CauseTexts(
        "is not marked for deletion: its deletion was not requested, or a controller with delete.topic.enable=false "
        "has dropped the marker",
        "lethe topics delete --topic {topic}",
    )
    REFUSED = CauseTexts(
        "is not deleted: the controller has dropped its marker{since}{detail}",
        "repair that, then delete the topic again: lethe topics delete --topic {topic}",
    )
    UNKNOWN = CauseTexts(
        "waits for a cause that this release of lethe does not know{detail}",
        "use the lethe that the controller runs",
    )
    # Left over.
    CACHED = CauseTexts(
        "is gone from ZooKeeper, but broker {broker} still shows it to clients{detail}", remedies.CLEAR_CACHE
    )
    TOMBSTONE_OWED = CauseTexts(
        "is gone from ZooKeeper, but broker {broker} has not confirmed that its metadata cache has dropped it"
        "{since}{detail}",
        "see whether the process of broker {broker} runs and its listener can be reached, or restart it; Lethe's "
        "controller sends it the removal before anything else",
    )
    STORED = CauseTexts(
        "is gone from ZooKeeper, but broker {broker} still has{path}{detail}",
        "check that nothing needs it, and remove it while the broker is down: no controller will request its deletion",
    )
    RECLAIMING = CauseTexts(
        "is deleted; broker {broker} has yet to remove the bytes of{path}",
        "nothing: brokers remove them after log.segment.delete.delay.ms (file.delete.delay.ms)",
    )
    CONFIG_LEFT = CauseTexts(
        "is gone, but its settings{path} are left", f"check that they are not wanted, then {remedies.FIX_SETTINGS}"
    )
    ZNODE_LEFT = CauseTexts("is gone, but{path} still names it", remedies.FIX)
    TO_BE_OWED = CauseTexts("does not wait for broker {broker}, which is not registered: it will owe what it has", "")
    BROKER_GIVEN_UP = CauseTexts(
        "does not wait for broker {broker}, which is given up: once its debts are written off, nothing deletes what it "
        "has",
        "",
    )
    DONE = CauseTexts("waits for nothing: the replica on broker {broker} is deleted", "")
    """Like TO_BE_OWED and BROKER_GIVEN_UP no cause: the replica is not waited for."""

    @property
    def code(self) -> str:
        """The name for programs: `broker_to_return`."""
        return self.name.lower()

    @property
    def rank(self) -> int:
        """Position in the display order, from 0."""
        return _RANKS[self]

    @property
    def is_hold(self) -> bool:
        """True if no replica of the topic can proceed until this cause is gone."""
        return self in _HOLDS

    @property
    def names_broker(self) -> bool:
        """True if the cause is about one broker."""
        return "{broker}" in self.value.sentence

    @property
    def held_code(self) -> str | None:
        """The value of `held_by` in journals and the controller's documents; None if this cause holds no topic."""
        return _HELD_CODES.get(self)


_RANKS: Final[Mapping[CauseKind, int]] = MappingProxyType({kind: rank for rank, kind in enumerate(CauseKind)})
_HELD_CODES: Final[Mapping[CauseKind, str]] = MappingProxyType(
    {
        CauseKind.RESUMPTION: "PAUSED",
        CauseKind.CONFIGURATION: "CONFIGURATION",
        CauseKind.TRASH: "TRASH",
        CauseKind.REASSIGNMENT: "REASSIGNMENT",
        CauseKind.READABLE_ZNODE: "UNREADABLE",
        CauseKind.NAME_RESERVED: "NAME_RESERVED",
        CauseKind.READABLE_TRASH: "TRASH_UNREADABLE",
        CauseKind.DISABLED: "DISABLED",
        CauseKind.PROTECTED: "PROTECTED",
        CauseKind.OTHER_INCARNATION: "OTHER_INCARNATION",
        CauseKind.MARKER_WITHOUT_TOPIC: "NO_TOPIC",
        CauseKind.NOT_CHOSEN: "NOT_CHOSEN",
        CauseKind.ORDERS: "ORDERS",
        CauseKind.PACE: "PACE",
    }
)
"""Old journals contain these codes: add codes, never change one."""
_HOLDS: Final = (frozenset(_HELD_CODES) - {CauseKind.MARKER_WITHOUT_TOPIC}) | {
    CauseKind.NO_CONTROLLER,
    CauseKind.CONTROLLER_UNSEEN,
    CauseKind.KRAFT,
    CauseKind.CONTROLLER_SILENT,
    CauseKind.CONFIGURATION_UNREAD,
    CauseKind.UNREADABLE_ORDERED,
}
HELD_BY: Final[Mapping[str, CauseKind]] = MappingProxyType({code: kind for kind, code in _HELD_CODES.items()})
"""The cause by `held_by`, as in journals and the controller's documents."""
_EARLIER_NAMES: Final[Mapping[str, CauseKind]] = MappingProxyType({"NEXT_TRY": CauseKind.BROKER_ERROR})


def named(name: str) -> CauseKind | None:
    """Return the cause of this name or code, names of earlier releases included; None if there is none."""
    name = name.upper()
    return CauseKind.__members__.get(name) or _EARLIER_NAMES.get(name)


def sentence(
    kind: CauseKind,
    topic: str,
    *,
    broker: int | None = None,
    partitions: str = "",
    path: str | None = None,
    since: str = "",
    detail: str | None = None,
) -> str:
    """Return `waits for broker 3, which …`, to follow the topic's name, without a full stop.

    `partitions` is text such as `partitions 0-3`; `since` such as `12:03:10 (14 min)`.
    """
    return kind.value.sentence.format_map(_fields(topic, broker, partitions, path, since, detail))


def remedy(kind: CauseKind, topic: str, *, broker: int | None = None, path: str | None = None) -> str:
    """Return the command or the action. In a command the topic is quoted for a shell."""
    words = {"operand": operand(topic), "option": option("--topic", topic)}
    return for_shell(kind.value.remedy).format_map(_fields(topic, broker, "", path, "", None) | words)


def _fields(
    topic: str, broker: int | None, partitions: str, path: str | None, since: str, detail: str | None
) -> dict[str, str]:
    return {
        "topic": topic,
        "broker": str(broker),
        "partitions": partitions or ITS_PARTITIONS,
        "path": f" {path}" if path else "",
        "place": f" (in {path})" if path else "",
        "since": f", since {since}" if since else "",
        "detail": f" ({detail})" if detail else "",
    }


ITS_PARTITIONS: Final = "its partitions"
"""Used if the partitions are unknown."""
