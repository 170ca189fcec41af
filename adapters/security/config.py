"""Kafka's properties for TLS, as settings.

    read_tls(values)                                     `ssl.…`, of a client or for all listeners
    read_tls(values, listener_prefix("INTERNAL"), "")    a listener: its own properties first
    read_tls(values, "lethe.http.")                      `lethe.http.ssl.…`, and nothing of `ssl.…`
    read_zookeeper_tls(values)                           `zookeeper.ssl.…`; None if TLS is off

Problems are noted in `values`, as by its own accessors. `TlsMaterial` opens the files of stores; those of passwords are
opened here, too. Properties that only concern a JVM are ignored (`ssl.provider`, `ssl.keymanager.algorithm`, …).

Where Kafka's rules are kept: inline PEM excludes a location, and PEM excludes a password of the store. Where they are
not: a key store of PKCS12 that opens without a password needs none, and old versions of TLS in `ssl.enabled.protocols`
are left out with a warning.
"""

from __future__ import annotations

import dataclasses
import ssl
from typing import Final, NamedTuple

from lethe.adapters.properties import ConfigError, Property, Values
from lethe.adapters.security.ciphers import choose_suites
from lethe.adapters.security.config_names import (
    CIPHER_SUITES,
    CLIENT_AUTH,
    ENABLED_PROTOCOLS,
    ENDPOINT_IDENTIFICATION,
    OLD_PROTOCOLS,
    PROTOCOL,
    TLS,
    ZOOKEEPER_CIPHER_SUITES,
    ZOOKEEPER_CLIENT_ENABLE,
    ZOOKEEPER_ENABLED_PROTOCOLS,
    ZOOKEEPER_ENDPOINT_IDENTIFICATION,
    ZOOKEEPER_PROTOCOL,
    ZOOKEEPER_REVOCATION,
    ZOOKEEPER_SOCKET,
)
from lethe.adapters.security.config_stores import read_kafka_keystore, read_kafka_truststore, read_zookeeper_store
from lethe.adapters.security.prefixed import Place, PrefixedValues, listener_prefix
from lethe.adapters.security.tls import ClientAuth, TlsMaterial, TlsSettings
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.vocabulary import SecurityProtocol

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_NETTY: Final = "ClientCnxnSocketNetty"


def read_tls(values: Values, *prefixes: str) -> TlsSettings | None:
    """Return the settings under the prefixes, of which the first has precedence; None if no property is given there.

    Without prefixes it is the empty one. `TlsSettings()` is what Kafka has where nothing is given.
    """
    reader = PrefixedValues(values, prefixes or ("",))
    if not any(reader.given(prop.name, blank=True) for prop in TLS):
        return None
    keystore, truststore = read_kafka_keystore(reader), read_kafka_truststore(reader)
    versions, ciphers = _versions_and_suites(reader, PROTOCOL, ENABLED_PROTOCOLS, CIPHER_SUITES)
    return TlsSettings(
        keystore=keystore,
        truststore=truststore,
        check_host=_check_host(reader, ENDPOINT_IDENTIFICATION),
        min_version=versions.lowest,
        max_version=versions.highest,
        client_max_version=versions.client_highest,
        ciphers=ciphers,
        client_auth=ClientAuth(reader.text(CLIENT_AUTH)),
        missing_keystore=_missing_keystore(values, reader.prefixes[-1]),
    )


def read_listener_tls(values: Values, listener: str, protocol: SecurityProtocol) -> TlsSettings:
    """Return the settings of a listener with SSL or SASL_SSL.

    As in Kafka, a SASL_SSL listener asks for certificates of clients only if its own `ssl.client.auth` says so.
    """
    prefix = listener_prefix(listener)
    settings = read_tls(values, prefix, "") or TlsSettings(missing_keystore=_missing_keystore(values, ""))
    if protocol is SecurityProtocol.SASL_SSL and PrefixedValues(values, (prefix,)).given(CLIENT_AUTH.name) is None:
        return dataclasses.replace(settings, client_auth=ClientAuth.NONE)
    return settings


def read_zookeeper_tls(values: Values) -> TlsSettings | None:
    """Return the settings for connections to ZooKeeper; None if `zookeeper.ssl.client.enable` is not true."""
    reader = PrefixedValues(values, ("",))
    if not reader.boolean(ZOOKEEPER_CLIENT_ENABLE):
        return None
    socket = reader.given(ZOOKEEPER_SOCKET.name)
    if socket is not None and not socket.text.endswith(_NETTY):
        reader.wrong(socket, "is a class without TLS", f"write org.apache.zookeeper.{_NETTY}, or remove the line")
    for prop in ZOOKEEPER_REVOCATION:
        if reader.boolean(prop) and (given := reader.given(prop.name)) is not None:
            reader.wrong(
                given, "is not supported: revocation is not looked up", "remove the line, and renew certificates often"
            )
    versions, ciphers = _versions_and_suites(
        reader, ZOOKEEPER_PROTOCOL, ZOOKEEPER_ENABLED_PROTOCOLS, ZOOKEEPER_CIPHER_SUITES
    )
    return TlsSettings(
        keystore=read_zookeeper_store(reader, "zookeeper.ssl.keystore."),
        truststore=read_zookeeper_store(reader, "zookeeper.ssl.truststore."),
        check_host=_check_host(reader, ZOOKEEPER_ENDPOINT_IDENTIFICATION),
        min_version=versions.lowest,
        max_version=versions.highest,
        client_max_version=versions.client_highest,
        ciphers=ciphers,
        missing_keystore=_missing_keystore(values, "zookeeper."),
    )


def opened(values: Values, settings: TlsSettings, *, serves: bool = False) -> TlsMaterial | None:
    """Read the stores, and with `serves` check that a listener can use them. None where problems are noted."""
    try:
        material = TlsMaterial(settings)
        if serves:
            material.server_context()
    except ConfigError as error:
        values.problems += error.problems
        return None
    return material


def _missing_keystore(values: Values, prefix: str) -> Place:
    return Place(f"{prefix}ssl.keystore.location", values.source)


# --- the handshake ------------------------------------------------------------------------------------------------


class _Versions(NamedTuple):
    lowest: ssl.TLSVersion
    highest: ssl.TLSVersion
    client_highest: ssl.TLSVersion


def _check_host(reader: PrefixedValues, prop: Property) -> bool:
    """An explicit blank value switches the check off."""
    given = reader.given(prop.name, blank=True)
    if given is None or given.text.lower() == "https":
        return True
    if given.text:
        reader.wrong(given, "is neither https nor blank", "write https; a blank value switches the check off")
        return True
    return False


def _versions_and_suites(
    reader: PrefixedValues, protocol: Property, enabled: Property, suites: Property
) -> tuple[_Versions, tuple[str, ...]]:
    """Return the versions of TLS, and the suites of TLS 1.2; suites of one version alone switch the other off."""
    versions = _enabled(reader, protocol, enabled)
    given = reader.given(suites.name)
    ciphers: tuple[str, ...] = ()
    if given is not None:
        try:
            chosen = choose_suites(item.strip() for item in given.text.split(",") if item.strip())
        except Unusable as error:
            reader.wrong(given, error.reason, error.remedy)
        else:
            ciphers = chosen.tls12
            usable = {"TLSv1.2"} if chosen.tls12 else set()
            usable |= {"TLSv1.3"} if chosen.tls13 else set()
            if not usable & versions:
                reader.wrong(given, f"has no suite for {_shown(versions)}", f"name one, or change {enabled.name}")
            versions = (usable & versions) or versions
    return _limits(reader, protocol, versions), ciphers


def _limits(reader: PrefixedValues, protocol: Property, versions: set[str]) -> _Versions:
    lowest, highest = _VERSIONS[min(versions)], _VERSIONS[max(versions)]
    if reader.text(protocol) != "TLSv1.2":
        return _Versions(lowest, highest, highest)
    given = reader.given(protocol.name)
    if given is not None and "TLSv1.2" not in versions:
        reader.wrong(
            given, f"leaves connections no version, because only {_shown(versions)} is enabled", "set it to TLSv1.3"
        )
        return _Versions(lowest, highest, highest)
    return _Versions(lowest, highest, _VERSIONS["TLSv1.2"])


def _enabled(reader: PrefixedValues, protocol: Property, enabled: Property) -> set[str]:
    """Return the enabled versions that are supported, at least one; warn of others that are left out."""
    given = reader.given(enabled.name)
    default = reader.text(protocol) if enabled.default is None else ""
    if given is None:
        return {default} if default in _VERSIONS else set(_VERSIONS)
    wanted = [item.strip() for item in given.text.split(",") if item.strip()]
    unknown = [item for item in wanted if item not in _VERSIONS and item not in OLD_PROTOCOLS]
    found = {item for item in wanted if item in _VERSIONS}
    if unknown:
        reader.wrong(given, f"{unknown[0]!r} is no version of TLS", "use TLSv1.2 and TLSv1.3")
    elif not found:
        reader.wrong(given, "names only versions that are broken", "use TLSv1.2 and TLSv1.3, here and at the peers")
    elif old := [item for item in wanted if item in OLD_PROTOCOLS]:
        warning = f"{given.place.origin}: {given.place.name}: {', '.join(old)} stays off, because it is broken"
        if warning not in reader.values.warnings:
            reader.values.warnings.append(warning)
    return found or set(_VERSIONS)


def _shown(versions: set[str]) -> str:
    return " and ".join(sorted(versions))
