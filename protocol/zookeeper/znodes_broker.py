"""`/brokers/ids/N`, versions 1 to 5."""

from __future__ import annotations

import re
from typing import Final

from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import (
    MalformedZnode,
    array,
    dump,
    integer,
    kind_of,
    malformed,
    mapping,
    parse_object,
    string,
)

_ENDPOINT: Final = re.compile(r"([^:/]*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,10})")
_PROTOCOLS: Final = {protocol.name: protocol for protocol in SecurityProtocol}
_MAX_PORT: Final = 65535
_CONTROLLER: Final = "controller"


def encode_broker(
    broker: Broker, *, timestamp_ms: int, version: int = 5, jmx_port: int = -1, is_controller: bool = False
) -> bytes:
    """Return a broker's registration, without its epoch: version 5 from IBP 2.7 on, 4 from 0.10, else 2.

    `is_controller` marks the registration of a Lethe controller, in a key that Kafka ignores.
    """
    if version not in (2, 3, 4, 5):
        raise ValueError(f"a broker's registration is written in version 2, 3, 4 or 5, not {version}")
    plaintext = broker.plaintext_endpoint
    fields: dict[str, object] = {}
    if version >= 5:
        fields["features"] = {name: {"min_version": low, "max_version": high} for name, low, high in broker.features}
    if version >= 4:
        fields["listener_security_protocol_map"] = {e.listener: e.protocol.name for e in broker.endpoints}
    fields["endpoints"] = [endpoint.text for endpoint in broker.endpoints]
    if version >= 3 and broker.rack is not None:
        fields["rack"] = broker.rack
    fields["jmx_port"] = jmx_port
    fields["port"] = plaintext.port if plaintext else -1
    fields["host"] = plaintext.host if plaintext else None
    fields["version"] = version
    fields["timestamp"] = str(timestamp_ms)
    if is_controller:
        fields["lethe"] = _CONTROLLER
    return dump(fields)


def is_controller_registration(data: bytes | None) -> bool:
    """Return whether the registration is a Lethe controller's; never raises."""
    if data is None or _CONTROLLER.encode() not in data:
        return False
    try:
        return parse_object(paths.BROKER_IDS, data).get("lethe") == _CONTROLLER
    except MalformedZnode:
        return False


def decode_broker(broker_id: int, epoch: int, data: bytes | None) -> Broker:
    """Decode `/brokers/ids/<broker_id>`, created at czxid `epoch`. Raises MalformedZnode."""
    path = paths.broker_id(broker_id)
    fields = parse_object(path, data)
    version = integer(path, "'version'", fields.get("version"), minimum=1)
    endpoints = _legacy_endpoint(path, fields) if version == 1 else _endpoints(path, fields)
    rack = fields.get("rack")
    return Broker(
        id=BrokerId(broker_id),
        epoch=BrokerEpoch(epoch),
        endpoints=endpoints,
        rack=None if rack is None else string(path, "'rack'", rack),
        features=_features(path, fields.get("features")),
    )


def registered_at_ms(data: bytes | None) -> int | None:
    """Return the time of registration by the broker's clock; None if missing or malformed. Nothing depends on it."""
    try:
        value = parse_object(paths.BROKER_IDS, data).get("timestamp")
    except MalformedZnode:
        return None
    text = str(value) if isinstance(value, str) or type(value) is int else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _legacy_endpoint(path: str, fields: dict[str, object] | object) -> tuple[Endpoint, ...]:
    known = mapping(path, "the registration", fields)
    host = string(path, "'host'", known.get("host"))
    port = integer(path, "'port'", known.get("port"), minimum=0, maximum=_MAX_PORT)
    return (Endpoint("PLAINTEXT", host, port, SecurityProtocol.PLAINTEXT),)


def _endpoints(path: str, fields: object) -> tuple[Endpoint, ...]:
    known = mapping(path, "the registration", fields)
    listed = known.get("listener_security_protocol_map")
    protocols = None if listed is None else mapping(path, "'listener_security_protocol_map'", listed)
    found = tuple(_endpoint(path, item, protocols) for item in array(path, "'endpoints'", known.get("endpoints")))
    if not found:
        malformed(path, "'endpoints' is empty, so the broker cannot be reached")
    if len({e.listener for e in found}) != len(found):
        malformed(path, "'endpoints' names a listener twice")
    return found


def _endpoint(path: str, item: object, protocols: dict[str, object] | object) -> Endpoint:
    text = string(path, "an item of 'endpoints'", item)
    parsed = _ENDPOINT.fullmatch(text)
    if parsed is None or not -1 <= int(parsed[3]) <= _MAX_PORT:
        malformed(path, f"endpoint {text[:80]!r} is not of the form LISTENER://host:port")
    listener = parsed[1].upper()
    name: object = listener
    if isinstance(protocols, dict):
        name = protocols.get(listener, protocols.get(parsed[1]))
    protocol = _PROTOCOLS.get(name.upper()) if isinstance(name, str) else None
    if protocol is None:
        malformed(path, f"listener {listener[:40]!r} has no known security protocol, found {kind_of(name)}")
    return Endpoint(listener, parsed[2], int(parsed[3]), protocol)


def _features(path: str, value: object) -> tuple[tuple[str, int, int], ...]:
    found = []
    for name, levels in sorted(mapping(path, "'features'", value).items()):
        where = f"feature {name[:40]!r}"
        range_ = mapping(path, where, levels)
        low = integer(path, f"'min_version' of {where}", range_.get("min_version"), minimum=0, maximum=0x7FFF)
        high = integer(path, f"'max_version' of {where}", range_.get("max_version"), minimum=low, maximum=0x7FFF)
        found.append((name, low, high))
    return tuple(found)
