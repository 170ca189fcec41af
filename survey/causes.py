"""Why a topic is not gone, as values, and the one place with the words for them.

Each cause has a name for scripts, a sentence for people, and what would unblock it. Where the controller has a word for
the same thing (`controller.core.waiting`), the name is the same.
"""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass
from typing import NamedTuple

from protocol.remedies import BRING_BACK, CLEAR_CACHE
from protocol.shell_words import for_shell, operand, option
from protocol.vocabulary import BrokerId


class Words(NamedTuple):
    """The sentence, after the topic's name, and what would unblock it. Both may name fields of the cause; `{since}` and
    `{detail}` are empty where nothing is known. In a command the topic is quoted for a shell."""

    sentence: str
    unblock: str


class Kind(enum.Enum):
    # What holds every deletion, or this one before it began.
    NO_CONTROLLER = Words(
        "waits for a controller: none is active",
        "start one (lethe controller, or a Kafka broker in ZooKeeper mode)",
    )
    KRAFT = Words(
        "waits in vain: a KRaft controller has the cluster, and nobody acts on markers in ZooKeeper",
        "delete it through a broker, or end the migration first",
    )
    CONTROLLER_SILENT = Words(
        "waits for controller {broker}, which holds /controller and cannot be talked to{detail}",
        "wake or restart it, or have another one do it: lethe rescue",
    )
    CONTROLLER_LATE = Words(
        "waits for controller {broker}: it is alive, no broker is missing, and the topic is still there{since}{detail}",
        "if nothing moves, see its controller.log, or have another one do it: lethe rescue",
    )
    RESUMPTION = Words(
        "waits for deletions to be resumed: they are paused{since}{detail}",
        "lethe topics resume-deletions",
    )
    DISABLED = Words(
        "is not deleted because delete.topic.enable is false{path}: a controller drops its marker{since}",
        "set it to true, then delete the topic again",
    )
    READABLE_ZNODE = Words(
        "waits for its znode {path} to be readable{since}{detail}",
        "repair the znode, or have Lethe's controller delete it as it is: "
        "lethe topics delete --unreadable --topic {topic}",
    )
    UNREADABLE_ORDERED = Words(
        "waits for Lethe's controller: its marker orders its deletion although its znode {path} cannot be read"
        "{since}{detail}, and only Lethe's controller looks at that",
        "have lethe controller take over, or repair the znode",
    )
    REASSIGNMENT = Words(
        "waits for the reassignment of {partitions} to end{since}{detail}",
        "start the brokers that replicas move to, or lethe partitions reassign --cancel {topic}; Lethe's controller "
        "ends it by itself",
    )
    HALF_DELETED = Words(
        "is half deleted: its tree in ZooKeeper is incomplete{detail}",
        "an active controller finishes it",
    )
    INCOMPLETE = Words(
        "has an incomplete tree in ZooKeeper{detail}: it is being made, or it was damaged",
        "nothing, while an active controller makes it; otherwise look at {path} and what is below it",
    )
    UNREADABLE = Words(
        "has a znode {path} that cannot be read or understood{since}{detail}",
        "see who may read it, and what it says; nothing can be said of the topic before",
    )
    MARKER_WITHOUT_TOPIC = Words(
        "has only its deletion marker left: there is no such topic in ZooKeeper",
        "an active controller drops the marker by itself",
    )
    # Brokers.
    BROKER_TO_RETURN = Words(
        "waits for broker {broker}, which is not registered in ZooKeeper{since}",
        BRING_BACK,
    )
    BROKER_TO_FINISH_SHUTDOWN = Words(
        "waits for broker {broker}, which is shutting down{since}",
        "nothing, if it answers before it goes; otherwise start it again",
    )
    BROKER_SILENT = Words(
        "waits for broker {broker}, which is registered but does not answer{since}{detail}",
        "wake or restart the broker; the request is repeated by itself",
    )
    BROKER_UNREACHABLE = Words(
        "waits for broker {broker}, which is registered but cannot be reached{since}{detail}",
        "see whether its process runs and its listener can be reached; the request is repeated by itself",
    )
    BROKER_ERROR = Words(
        "waits for broker {broker}, which answers with an error{since}{detail}",
        "mend what the broker's log says of it; Lethe's controller repeats the request by itself",
    )
    LOG_DIRECTORY = Words(
        "waits for broker {broker}, whose log directory {path} has failed{since}{detail}",
        "repair the directory and restart the broker",
    )
    ANSWER = Words(
        "waits for broker {broker}, which has been asked and has not answered{since}{detail}",
        "if it lasts, see what the broker does; the request is repeated by itself",
    )
    TOMBSTONE_ANSWER = Words(
        "waits for broker {broker} to confirm that its metadata cache has dropped the topic{since}{detail}",
        "if it lasts, see what the broker does; the request is repeated by itself",
    )
    ZNODES = Words(
        "waits for ZooKeeper to let the controller remove its znodes{since}{detail}",
        "it is repeated by itself; see to the permissions of the topic's znodes",
    )
    STILL_STORED = Words(
        "is still stored on broker {broker} ({partitions}), which is alive and answers",
        "nothing, unless it lasts: then see the logs of the controller and the broker; Kafka's own controller asks "
        "again only when the broker restarts or another controller takes over (lethe controller-resign)",
    )
    # Going on.
    IN_PROGRESS = Words(
        "is being deleted: nothing that could be seen is wrong, the controller has not finished{detail}",
        "nothing; if it lasts, see the controller's log",
    )
    IN_MOTION = Words("has changed while it was looked at", "ask again")
    NOT_MARKED = Words(
        "is not marked for deletion: nobody has asked for it, or a controller with delete.topic.enable=false has "
        "dropped the marker",
        "lethe topics delete --topic {topic}",
    )
    REFUSED = Words(
        "is not deleted: the controller has dropped its marker{since}{detail}",
        "mend that, then delete the topic again: lethe topics delete --topic {topic}",
    )
    # Left over.
    CACHED = Words(
        "is gone from ZooKeeper, but broker {broker} still tells clients of it{detail}",
        CLEAR_CACHE,
    )
    STORED = Words(
        "is gone from ZooKeeper, but broker {broker} still has {path}{detail}",
        "look whether it can go, and remove it while the broker is down: no controller will ask for it again",
    )
    RECLAIMING = Words(
        "is deleted; broker {broker} has yet to remove the bytes of {path}",
        "nothing: brokers remove them after log.segment.delete.delay.ms (file.delete.delay.ms)",
    )
    ZNODE_LEFT = Words("is gone, but {path} still names it", "remove it from ZooKeeper, if nobody needs it")

    @property
    def is_hold(self) -> bool:
        """True where no replica of the topic goes on before this is over."""
        return self in _HOLDS


_HOLDS = frozenset(
    {
        Kind.NO_CONTROLLER,
        Kind.KRAFT,
        Kind.CONTROLLER_SILENT,
        Kind.RESUMPTION,
        Kind.DISABLED,
        Kind.READABLE_ZNODE,
        Kind.UNREADABLE_ORDERED,
        Kind.REASSIGNMENT,
    }
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause, and what it is about; None and empty where it is not about that."""

    kind: Kind
    broker: BrokerId | None = None
    partitions: tuple[int, ...] = ()
    path: str | None = None
    since_ms: int | None = None
    attempts: int = 0
    detail: str | None = None
    """The reason of a pause, the last error of a broker, what is missing of a tree."""


def sentence(cause: Cause, topic: str, now_ms: int) -> str:
    """`orders waits for broker 3, which …`, without a full stop."""
    return f"{topic} {cause.kind.value.sentence.format_map(_fields(cause, topic, now_ms))}"


def unblock(cause: Cause, topic: str) -> str:
    """The command or the action. Names are those of a shell's words."""
    words = {"operand": operand(topic), "option": option("--topic", topic)}
    return for_shell(cause.kind.value.unblock).format_map(_fields(cause, topic, 0) | words)


def _fields(cause: Cause, topic: str, now_ms: int) -> dict[str, str]:
    path = cause.path or ""
    return {
        "topic": topic,
        "broker": str(cause.broker),
        "partitions": partitions_text(cause.partitions),
        "path": f" (in {path})" if path and cause.kind is Kind.DISABLED else path,
        "since": "" if cause.since_ms is None else f", since {since_text(cause.since_ms, now_ms)}",
        "detail": f" ({cause.detail})" if cause.detail else "",
    }


def partitions_text(numbers: tuple[int, ...]) -> str:
    """`partition 3`, `partitions 0-4, 7`; `its partitions` where they are not known."""
    if not numbers:
        return "its partitions"
    return f"partition{'s' if len(numbers) > 1 else ''} {ranges(numbers)}"


def ranges(numbers: tuple[int, ...]) -> str:
    """`0-4, 7`, and no more than ten of such."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs[:10])
    return shown if len(runs) <= 10 else f"{shown} and {sum(high - low + 1 for low, high in runs[10:])} more"


def since_text(at_ms: int, now_ms: int) -> str:
    """`12:03:10 (14 min)`, in local time; with the date where it is not of the last day."""
    age_ms = max(0, now_ms - at_ms)
    form = "%H:%M:%S" if age_ms < 86_400_000 else "%Y-%m-%d %H:%M:%S"
    return f"{time.strftime(form, time.localtime(at_ms / 1000))} ({age_text(age_ms)})"


def age_text(age_ms: int) -> str:
    """`8 s`, `14 min`, `3 h`, `12 days`."""
    for unit_ms, name, upto in ((1000, "s", 120), (60_000, "min", 120), (3_600_000, "h", 48)):
        if age_ms < upto * unit_ms:
            return f"{age_ms // unit_ms} {name}"
    return f"{age_ms // 86_400_000} days"
