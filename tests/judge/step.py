"""A step of the judge: what one client asks, and what it answered.

A step has the same words on every side. `{id:TOPIC}` in an argument is the topic's id on that side, `{dir:NAME}` the
path of a file of the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

LIMIT_S: Final = 20.0
"""How long one step may take. What takes longer is a hang: Kafka's clients give up after 60 s."""


_READING: Final = frozenset({"--describe", "describe", "--list", "list", "configs", "cluster", "moving", "-L"})


class Client(Enum):
    """Who asks. The value is its name in the table."""

    TOOLS = "3.9.1"
    """Kafka's command-line tools, in one JVM."""
    OLD_TOOLS = "2.5.1"
    ADMIN = "Admin 3.9.1"
    """Kafka's Java client, by `AdminSteps.java`, in the JVM of the tools."""
    STREAMS = "Streams 3.9.1"
    """`StreamsSteps.java`: Kafka Streams' own `InternalTopicManager`."""
    CONNECT = "Connect 3.9.1"
    """`ConnectSteps.java`: Kafka Connect's own `TopicAdmin`."""
    KCAT = "kcat"
    PYTHON = "Python"
    """confluent-kafka, aiokafka and kafka-python, by `python_steps.py`, in one process."""
    CLUSTER = "cluster"
    """Not a client: the judge stops or starts a broker."""


class Side(Enum):
    """A cluster that is asked. The value is its name in the table."""

    KAFKA = "kafka"
    LETHE = "lethe"
    AGENTS = "agents"

    @property
    def description(self) -> str:
        """What the page says of it."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Final = {
    Side.KAFKA: "three brokers of Kafka 3.9.1, one of which is the controller",
    Side.LETHE: "three brokers of Kafka 3.9.1, and Lethe's controller with `listeners`",
    Side.AGENTS: "three agents of Lethe, and Lethe's controller with `listeners`",
}


class Free(Enum):
    """What Kafka leaves open in the answer to a step, so that it is not compared. The value is for the page."""

    PLACEMENT = "which brokers have the replicas of a topic that is created without an assignment: the first is random"
    ORDER = "the order of lines, where the tool prints what a hash map or several answers hold"
    CONTROLLER = "which broker answers, and which one is the controller (kcat)"


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a client."""

    client: Client
    words: tuple[str, ...]
    """The tool or call, and its arguments but for the cluster's address."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Content of files that the arguments name as `{dir:NAME}`."""
    free: frozenset[Free] = frozenset()
    shows: str | None = None
    """A regular expression over all lines. The step is repeated until the answer has it: for what brokers follow by
    themselves."""
    note: str = ""
    """Tells apart two steps that have the same words."""

    @property
    def reads(self) -> bool:
        """Whether it changes nothing, so that the next step need not wait for brokers."""
        return any(word in _READING for word in self.words)

    @property
    def name(self) -> str:
        """Its name in the table and in the list of differences."""
        words = f"{self.client.value} {' '.join(self.words)}"
        return f"{words} ({self.note})" if self.note else words


class Answer(NamedTuple):
    """What a client said. `code` is its exit code; None stands for a hang, and then there are no lines."""

    code: int | None
    lines: tuple[str, ...]
    took_s: float

    @property
    def hangs(self) -> bool:
        return self.code is None


class NotRun(NamedTuple):
    """The client is not to be had here, or the side has nothing of that kind; `why` names it."""

    why: str


Outcome = Answer | NotRun
