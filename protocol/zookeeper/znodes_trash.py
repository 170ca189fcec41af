"""Codecs of `/lethe/requests/<topic>`: what a command requests of Lethe's controller for one topic.

The command creates the request and waits. The controller removes it when it is done, or writes into it why it refuses.
Then the command removes it. A controller ignores requests that it has refused.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import dump, integer, kind_of, malformed, parse_object, string

_VERSION = 1


class RequestedAction(enum.StrEnum):
    """What the controller is to do with the topic."""

    UNDELETE = "undelete"
    """Bring back a topic that was deleted: remove its marker if nothing of it was destroyed yet."""


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """A request about one topic."""

    action: RequestedAction
    refused: str | None = None
    """Why the controller refuses it; None: it has not refused."""

    def refuse(self, why: str) -> TopicRequest:
        """Return the same request as refused."""
        return replace(self, refused=why)


def encode_topic_request(request: TopicRequest) -> bytes:
    """Return the znode's data."""
    refused = {} if request.refused is None else {"refused": request.refused}
    return dump({"version": _VERSION, "request": request.action.value} | refused)


def decode_topic_request(topic: str, data: bytes | None) -> TopicRequest:
    """Decode a request; raises MalformedZnode, also for an unknown version or action."""
    path = paths.request(topic)
    fields = parse_object(path, data)
    if (version := integer(path, "'version'", fields.get("version"))) != _VERSION:
        malformed(path, f"version {version} is not known")
    text, refused = string(path, "'request'", fields.get("request")), fields.get("refused")
    try:
        action = RequestedAction(text)
    except ValueError:
        malformed(path, f"'request' must be undelete, found {kind_of(text)}")
    return TopicRequest(action, None if refused is None else string(path, "'refused'", refused))
