"""Kafka's properties for connections to brokers, as a `BrokerReach`.

    read_reach_between_brokers(values)   as brokers connect to each other, and their controller to them
    read_client_reach(values)            as clients connect

Between brokers, Kafka's rule: the listener is `control.plane.listener.name`, else `inter.broker.listener.name`, else
the one with the name of `security.inter.broker.protocol`. Its protocol is that of `listener.security.protocol.map`, so
a registration in ZooKeeper cannot lower it. Without any of them it is any PLAINTEXT listener, whatever its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lethe.adapters.config_kafka_names import KAFKA_NAMES, listener_of, without_listener
from lethe.adapters.config_listeners import PROTOCOL_MAP, read_protocols
from lethe.adapters.config_misspelt import misspelt
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.properties import Property, Values, read_values, schema
from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.config import opened, read_tls
from lethe.adapters.security.config_exposure import warn_of_exposed_properties
from lethe.adapters.security.config_names import CLIENT_AUTH, TLS
from lethe.adapters.security.config_names_sasl import (
    CLIENT_LISTENER,
    CLIENT_PROTOCOL,
    INTER_BROKER_PROTOCOL,
    SASL_BETWEEN_BROKERS,
    SASL_OF_CLIENTS,
    TOKEN_COMMAND,
)
from lethe.adapters.security.config_sasl import read_client_login, read_login_between_brokers
from lethe.adapters.security.jaas_file import JAAS_FILE
from lethe.adapters.security.login import SaslLogin
from lethe.adapters.security.prefixed import PrefixedValues, listener_prefix
from lethe.adapters.security.tls import TlsMaterial, TlsSettings
from lethe.protocol.counting import listed
from lethe.protocol.security.principals import PrincipalRefused, certificate_principal
from lethe.protocol.vocabulary import SecurityProtocol

INTER_BROKER_LISTENER: Final = "inter.broker.listener.name"
CONTROL_PLANE_LISTENER: Final = "control.plane.listener.name"
BETWEEN_BROKERS: Final = (*SASL_BETWEEN_BROKERS, *TLS)
"""The properties that `read_reach_between_brokers` reads, besides those of listeners."""
CLIENT_SCHEMA: Final = schema(SASL_OF_CLIENTS, TLS, (CLIENT_LISTENER,))
MAX_IDLE_SHOWN: Final = 5
_SECURING: Final = ("ssl.", "sasl.", TOKEN_COMMAND.name)
"""How the names of properties for TLS and logins begin."""
CLIENT_REMEDY: Final = "set security.protocol to one that the broker has, in the file of --command-config"
CLIENT_LISTENER_REMEDY: Final = (
    f"set {CLIENT_LISTENER.name} to a listener that the broker has, and security.protocol to its protocol, in the file "
    "of --command-config"
)


def _nowhere(_: str) -> None:
    """Take a warning that is not shown."""


def read_reach_between_brokers(
    values: Values, names: Sequence[str] = (CONTROL_PLANE_LISTENER, INTER_BROKER_LISTENER)
) -> BrokerReach:
    """Return how a daemon reaches brokers. Opens stores and files of passwords; notes problems.

    `names`: the properties that may name the listener, the first one given counts.
    """
    reader = PrefixedValues(values, ("",))
    given = next((found for name in names if (found := reader.given(name)) is not None), None)
    if given is None:
        named = reader.text(INTER_BROKER_PROTOCOL)
        if not named:
            return BrokerReach()
        listener, protocol = named, SecurityProtocol[named]
    else:
        listener = given.text.upper()
        protocols = read_protocols(values)
        if listener not in protocols and reader.given(PROTOCOL_MAP.name) is not None:
            reader.wrong(given, "has no security protocol", f"add it to {PROTOCOL_MAP.name}")
        protocol = protocols.get(listener, SecurityProtocol.PLAINTEXT)
    login = read_login_between_brokers(values, listener) if protocol.has_sasl else None
    channel = _channel(values, protocol, login, listener_prefix(listener), "")
    return BrokerReach(listener, MappingProxyType({protocol: channel}))


def read_client_reach(values: Values, prefix: str = "") -> BrokerReach:
    """Return how a client whose properties have the prefix reaches brokers.

    Opens stores and files of passwords; notes problems. The reach has one security protocol. Warns of properties for
    TLS or a login beside no `security.protocol`: as in Kafka's clients they have no effect, and the connection is in
    plain text.
    """
    values.warnings += without_effect(values, prefix)
    protocol = SecurityProtocol[PrefixedValues(values, (prefix,)).text(CLIENT_PROTOCOL)]
    login = read_client_login(values, prefix) if protocol.has_sasl else None
    channel = _channel(values, protocol, login, prefix)
    return BrokerReach(None, MappingProxyType({protocol: channel}), CLIENT_REMEDY)


def with_prefix(prefix: str) -> tuple[Property, ...]:
    """Return the properties that `read_client_reach` reads with this prefix, for a schema and its page."""
    others = (CLIENT_AUTH.name, JAAS_FILE.name, TOKEN_COMMAND.name)
    return tuple(
        replace(prop, name=prefix + prop.name, doc=f"As `{prop.name}` of Kafka's clients, for these connections.")
        for prop in (*SASL_OF_CLIENTS, *TLS)
        if prop.name not in others
    )


def load_client_reach(path: Path, warn: Callable[[str], None] = _nowhere) -> BrokerReach:
    """Read a file such as `client.properties`; other properties in it are ignored. Raises ConfigError, also for a name
    that is nearly one that is read here: without `security.protocol`, which is misspelt, the connection would have
    neither TLS nor a login.

    `lethe.listener.name` in it names the listener; else it is any that has the file's security protocol. `warn`
    receives the warnings of a file that can be used.
    """
    values = read_values(path, {}, CLIENT_SCHEMA)
    values.warnings.clear()
    warn_of_exposed_properties(values, path)
    values.problems += misspelt(values.settings, CLIENT_SCHEMA)
    reach = read_client_reach(values)
    listener = values.text(CLIENT_LISTENER.name)
    values.finish()
    for warning in values.warnings:
        warn(warning)
    return replace(reach, listener=listener.upper(), remedy=CLIENT_LISTENER_REMEDY) if listener else reach


def without_effect(values: Values, prefix: str = "") -> list[str]:
    """Return warnings of properties for TLS or a login that are not used; without values, which may be secrets.

    ssl.truststore.location                          used only beside `security.protocol`
    listener.name.internal.ssl.truststore.location   never used, since clients have no listeners
    """
    name = prefix + CLIENT_PROTOCOL.name
    given = {each: setting for each, setting in values.settings.items() if setting.value.strip()}
    if name in given and given[name].value.strip() == CLIENT_PROTOCOL.default:
        return []
    idle = [] if name in given else [each for each in given if each.startswith(prefix) and _secures(each, prefix)]
    # Where there is a prefix, the listeners in the file are those of the daemon.
    of_listeners = [] if prefix else [each for each in given if listener_of(each) and _secures(without_listener(each))]
    plaintext = f"without {name}, which is PLAINTEXT by default, brokers are reached without TLS and login"
    warnings = []
    if idle:
        remedy = f"add {name}={_protocols(idle, prefix)}, or {name}=PLAINTEXT if that is meant"
        warnings.append(f"{given[idle[0]].origin}: {listed(idle, MAX_IDLE_SHOWN)}: {plaintext}; {remedy}")
    if of_listeners:
        known = [*dict.fromkeys(map(without_listener, of_listeners))]
        reason, remedy = "clients use no properties of listeners", f"write {listed(known, MAX_IDLE_SHOWN)}"
        if name not in given and not idle:
            reason, remedy = f"{reason}, and {plaintext}", f"{remedy}, and add {name}={_protocols(known)}"
        warnings.append(f"{given[of_listeners[0]].origin}: {listed(of_listeners, MAX_IDLE_SHOWN)}: {reason}; {remedy}")
    return warnings


def _secures(name: str, prefix: str = "") -> bool:
    """Return whether a property is for TLS or a login."""
    name = name.removeprefix(prefix)
    return name.startswith(_SECURING) and (name in CLIENT_SCHEMA or name in KAFKA_NAMES)


def _protocols(names: Sequence[str], prefix: str = "") -> str:
    """Return which protocols use these properties for TLS and logins."""
    has_tls = any(each.startswith(f"{prefix}ssl.") for each in names)
    has_login = any(not each.startswith(f"{prefix}ssl.") for each in names)
    return "SASL_SSL" if has_login and has_tls else "SASL_SSL or SASL_PLAINTEXT" if has_login else "SSL"


def _channel(
    values: Values, protocol: SecurityProtocol, login: SaslLogin | None, *tls_prefixes: str
) -> ChannelSecurity:
    """Return the security for the protocol; after a noted problem, something that no connection is opened with."""
    if not protocol.has_tls:
        return ChannelSecurity(login=login)
    settings = read_tls(values, *tls_prefixes) or TlsSettings()
    material = opened(values, settings)
    if material is None:
        return ChannelSecurity(login=login)
    return ChannelSecurity(material.client_context, settings.check_host, login, _principal_of(material), material)


def _principal_of(material: TlsMaterial) -> str:
    try:
        return str(certificate_principal(material.certificate))
    except PrincipalRefused:
        # It only matters to brokers, which may map such names.
        return "the principal of the certificate in ssl.keystore.location"
