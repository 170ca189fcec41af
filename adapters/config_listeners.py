"""Listeners for Kafka's protocol and advertised addresses, with Kafka's property names and syntax."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from lethe.adapters.properties import Property, PropertyKind, Values
from lethe.protocol.vocabulary import Endpoint, SecurityProtocol

LOOPBACK: Final = "127.0.0.1"

PROTOCOL_MAP: Final = Property(
    "listener.security.protocol.map",
    PropertyKind.LIST,
    "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "Security protocol of each listener name.",
)

_LISTENER: Final = re.compile(r"([A-Za-z0-9_-]+)://(\[[0-9a-fA-F:.%]*\]|[^:/\s\[\]]*):(-?[0-9]{1,6})\Z")
_ANY_ADDRESS: Final = ("0.0.0.0", "::")
_FORM: Final = "write NAME://host:port, several separated by commas"


def read_protocols(values: Values) -> dict[str, SecurityProtocol]:
    """Return `listener.security.protocol.map`; note problems."""
    found: dict[str, SecurityProtocol] = {}
    for item in values.items("listener.security.protocol.map"):
        listener, colon, protocol = item.partition(":")
        listener, protocol = listener.strip().upper(), protocol.strip().upper()
        name = "listener.security.protocol.map"
        if not colon or protocol not in SecurityProtocol.__members__:
            values.wrong(name, f"{item!r} is not NAME:PROTOCOL", "use " + ", ".join(SecurityProtocol.__members__))
        elif listener in found:
            values.wrong(name, f"names listener {listener} twice", "name each listener once")
        else:
            found[listener] = SecurityProtocol[protocol]
    return found


def read_inter_broker_listener(values: Values, default: str = "PLAINTEXT") -> str:
    """Return the name of the listener between brokers, in capitals, by Kafka's rules."""
    named = values.text("inter.broker.listener.name") or values.text("security.inter.broker.protocol") or default
    return named.upper()


def read_endpoints(values: Values, name: str, protocols: Mapping[str, SecurityProtocol]) -> tuple[Endpoint, ...]:
    """Return the listeners in the property, in their order; an empty host is loopback. Note problems."""
    found: list[Endpoint] = []
    for item in values.items(name):
        matched = _LISTENER.match(item)
        if matched is None or not 0 <= int(matched[3]) <= 65535:
            values.wrong(name, f"{item!r} is not a listener", _FORM)
            continue
        listener, host, port = matched[1].upper(), matched[2].strip("[]"), int(matched[3])
        protocol = protocols.get(listener)
        if protocol is None:
            values.wrong(
                name, f"listener {listener} has no security protocol", "add it to listener.security.protocol.map"
            )
            continue
        if any(listener == other.listener for other in found):
            values.wrong(name, f"names listener {listener} twice", "give each listener a name of its own")
            continue
        if port and any((host, port) == (other.host, other.port) for other in found):
            values.wrong(name, f"two listeners share {host}:{port}", "give each listener a port of its own")
        found.append(Endpoint(listener, host or LOOPBACK, port, protocol))
    if not values.items(name):
        values.wrong(name, "names no listener that can be served", _FORM)
    return tuple(found)


def listener_hosts(items: Iterable[str]) -> tuple[str, ...]:
    """Return the hosts of well-formed listeners; `read_endpoints` notes the others."""
    found = (_LISTENER.match(item) for item in items)
    return tuple(dict.fromkeys(matched[2].strip("[]") for matched in found if matched and matched[2]))


def read_advertised(
    values: Values, protocols: Mapping[str, SecurityProtocol], listeners: tuple[Endpoint, ...]
) -> tuple[Endpoint, ...]:
    """Return `advertised.listeners`, or else `listeners`; note problems."""
    name = "advertised.listeners"
    given = values.setting(name) is not None
    advertised = read_endpoints(values, name, protocols) if given else listeners
    blamed = name if given else "listeners"
    names = [endpoint.listener for endpoint in listeners]
    for endpoint in advertised:
        if endpoint.host in _ANY_ADDRESS:
            reason = f"{endpoint.host} is no address that others can connect to"
            values.wrong(blamed, reason, f"name one in advertised.listeners, as {endpoint.listener}://host:port")
        if endpoint.listener not in names:
            reason = f"listener {endpoint.listener} is not among listeners ({', '.join(names)})"
            values.wrong(name, reason, "use the same names in both")
    return advertised


def with_ports(advertised: Iterable[Endpoint], bound: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """Return the advertised endpoints; port 0 is replaced by the port of the bound listener of the same name."""
    ports = {endpoint.listener: endpoint.port for endpoint in bound}
    return tuple(endpoint._replace(port=endpoint.port or ports[endpoint.listener]) for endpoint in advertised)
