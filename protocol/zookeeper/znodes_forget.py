"""Codec of `/lethe/forget/<broker>`: a command requests that Lethe's controller gives up a broker for good.

The command creates the request and waits. The controller removes it last, when it is done, or writes into it why it
refuses; then the command removes it. A controller ignores requests that it has refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import dump, integer, malformed, parse_object, string

_VERSION = 1


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """A request to forget one broker."""

    refused: str | None = None
    """Why the controller refuses it; None: it has not refused."""


def encode_forget_request(request: ForgetRequest) -> bytes:
    """Return the znode's data."""
    refused = {} if request.refused is None else {"refused": request.refused}
    return dump({"version": _VERSION} | refused)


def decode_forget_request(broker: int, data: bytes | None) -> ForgetRequest:
    """Decode a request; raises MalformedZnode, also for an unknown version."""
    path = paths.forget(broker)
    fields = parse_object(path, data)
    if (version := integer(path, "'version'", fields.get("version"))) != _VERSION:
        malformed(path, f"version {version} is not known")
    refused = fields.get("refused")
    return ForgetRequest(None if refused is None else string(path, "'refused'", refused))
