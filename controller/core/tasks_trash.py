"""Tasks and continuations for requests to bring topics back: see `tasks`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.protocol.zookeeper.znodes import TopicRequest


@dataclass(frozen=True, slots=True)
class ReadTopicRequests:
    """Read what commands request of the controller, by topic."""


TrashTask = ReadTopicRequests


# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicRequestsListed:
    pass


@dataclass(frozen=True, slots=True)
class TopicRequestsRead:
    """After reading request and marker of each of these topics."""

    topics: tuple[str, ...]


class RequestAnswer(NamedTuple):
    """The answer to one request: `refused` is it with the reason, None where it is granted."""

    topic: str
    refused: TopicRequest | None


@dataclass(frozen=True, slots=True)
class TopicRequestsAnswered:
    answers: tuple[RequestAnswer, ...]


TrashReadContinuation = TopicRequestsListed | TopicRequestsRead
TrashWriteContinuation = TopicRequestsAnswered
