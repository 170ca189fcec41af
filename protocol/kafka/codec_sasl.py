"""Mapping of SaslHandshake and SaslAuthenticate to Kafka's schemas, version by version."""

from __future__ import annotations

from operator import attrgetter

from lethe.protocol.kafka.codec_control import Binding, row
from lethe.protocol.kafka.codec_layout import Shape
from lethe.protocol.kafka.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


def handshake_request(_version: int) -> Binding:
    return Binding(
        shapes={"SaslHandshakeRequest": Shape(SaslHandshakeRequest, ("mechanism",))},
        items=lambda request: row(request.mechanism),
    )


def handshake_response(_version: int) -> Binding:
    return Binding(
        shapes={"SaslHandshakeResponse": Shape(SaslHandshakeResponse, ("error_code", "mechanisms"))},
        items=attrgetter("error", "mechanisms"),
    )


def authenticate_request(_version: int) -> Binding:
    return Binding(
        shapes={"SaslAuthenticateRequest": Shape(SaslAuthenticateRequest, ("auth_bytes",))},
        items=lambda request: row(request.auth_bytes),
    )


def authenticate_response(_version: int) -> Binding:
    names = ("error_code", "error_message", "auth_bytes", "session_lifetime")
    return Binding(
        shapes={"SaslAuthenticateResponse": Shape(SaslAuthenticateResponse, names, (0,))},
        items=attrgetter("error", "error_message", "auth_bytes", "session_lifetime_ms"),
    )
