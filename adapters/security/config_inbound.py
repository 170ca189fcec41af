"""Kafka's properties for who may connect to listeners, and what it may do there, as settings.

    property                                                    may be set for a listener, as listener.name.<listener>.…
    ssl.…, ssl.principal.mapping.rules                          yes
    sasl.enabled.mechanisms, sasl.server.max.receive.size       yes
    connections.max.reauth.ms                                   yes, and …<listener>.<mechanism>.…
    sasl.jaas.config                                            only …<listener>.<mechanism>.…, else the JAAS file
    authorizer.class.name, super.users, and for no ACL found    no

Where Kafka's rules are not kept: GSSAPI and OAUTHBEARER cannot be verified here. They are left out with a warning if
another mechanism is left, else the configuration is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lethe.adapters.properties import MAX_INT, Problem, Property, PropertyKind, Values
from lethe.adapters.security.accepting import MAX_RECEIVE_BYTES
from lethe.adapters.security.access import AccessSettings
from lethe.adapters.security.config import opened, read_listener_tls
from lethe.adapters.security.config_names_sasl import JAAS_CONFIG
from lethe.adapters.security.config_sasl import read_listener_entry
from lethe.adapters.security.exchanges import has_users
from lethe.adapters.security.inbound import InboundSettings, ListenerSettings
from lethe.adapters.security.login import GSSAPI
from lethe.adapters.security.prefixed import PrefixedValues, listener_prefix, mechanism_prefix
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.security.jaas import JaasEntry, JaasError
from lethe.protocol.security.oauthbearer import OAUTHBEARER
from lethe.protocol.security.plain import PLAIN
from lethe.protocol.security.principal_mapping import DEFAULT_MAPPING, PrincipalMapping
from lethe.protocol.security.principals import Principal, parse_super_users
from lethe.protocol.security.scram import ScramMechanism
from lethe.protocol.vocabulary import Endpoint, SecurityProtocol

_SERVED: Final = (PLAIN, *(each.value for each in ScramMechanism))
_NOT_VERIFIED: Final = (GSSAPI, OAUTHBEARER)
_AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
_PRINCIPAL_BUILDERS: Final = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
)

_EXAMPLE: Final = (
    'write it as org.apache.kafka.common.security.plain.PlainLoginModule required user_<name>="<password>";'
)

MECHANISMS: Final = Property(
    "sasl.enabled.mechanisms",
    PropertyKind.LIST,
    GSSAPI,
    "Mechanisms of listeners with SASL: PLAIN, with the users of the login module in "
    "`listener.name.<listener>.plain.sasl.jaas.config`, or SCRAM-SHA-256 and SCRAM-SHA-512, with Kafka's users in "
    "ZooKeeper. GSSAPI, which is Kafka's default, and OAUTHBEARER are left out.",
)
RECEIVE_SIZE: Final = Property(
    "sasl.server.max.receive.size",
    PropertyKind.INTEGER,
    str(MAX_RECEIVE_BYTES),
    "Largest request of a client that has not logged in yet.",
    unit="bytes",
    minimum=1,
    maximum=MAX_INT,
)
REAUTHENTICATION: Final = Property(
    "connections.max.reauth.ms",
    PropertyKind.INTEGER,
    "0",
    "How long a login by SASL counts; clients repeat it before, on the same connection. 0: it does not end.",
    unit="milliseconds",
    minimum=0,
)
FAILURE_DELAY: Final = Property(
    "connection.failed.authentication.delay.ms",
    PropertyKind.INTEGER,
    "100",
    "How long the answer to a failed login waits, which slows down guessing.",
    unit="milliseconds",
    minimum=0,
    maximum=60_000,
)
MAPPING: Final = Property(
    "ssl.principal.mapping.rules",
    PropertyKind.TEXT,
    "DEFAULT",
    "From the name in a client's certificate to its principal; by default the whole name.",
)
AUTHORIZER: Final = Property(
    "authorizer.class.name",
    PropertyKind.TEXT,
    None,
    "With `kafka.security.authorizer.AclAuthorizer` each request to the listeners needs the rights that Kafka's "
    "brokers ask for, by the ACLs in ZooKeeper. Without it every client that may connect may do everything.",
)
SUPER_USERS: Final = Property(
    "super.users",
    PropertyKind.TEXT,
    None,
    "Principals that may do everything, such as `User:admin;User:CN=broker-1,O=Acme`, separated by semicolons.",
)
EVERYONE: Final = Property(
    "allow.everyone.if.no.acl.found",
    PropertyKind.BOOLEAN,
    "false",
    "Whether everyone may do what no ACL is about.",
)
INBOUND: Final = (
    MECHANISMS,
    RECEIVE_SIZE,
    REAUTHENTICATION,
    FAILURE_DELAY,
    MAPPING,
    AUTHORIZER,
    SUPER_USERS,
    EVERYONE,
)
"""The properties of listeners, besides `listeners` and those of TLS."""


def read_inbound(values: Values, listeners: Sequence[Endpoint]) -> InboundSettings:
    """Return the security of these listeners. Opens stores and files; notes problems."""
    if not listeners:
        return InboundSettings()
    access = _access(values)
    settings = {each.listener: _listener(values, each.listener, each.protocol) for each in listeners}
    if access is not None or any(each.protocol is not SecurityProtocol.PLAINTEXT for each in listeners):
        _check_principal_builder(values)
    return InboundSettings(settings, access)


def _listener(values: Values, listener: str, protocol: SecurityProtocol) -> ListenerSettings:
    prefix = listener_prefix(listener)
    reader = PrefixedValues(values, (prefix, ""))
    mechanisms = _mechanisms(reader, listener) if protocol.has_sasl else ()
    return ListenerSettings(
        tls=opened(values, read_listener_tls(values, listener, protocol), serves=True) if protocol.has_tls else None,
        mechanisms=mechanisms,
        read_plain=_users(values, listener) if PLAIN in mechanisms else None,
        mapping=_mapping(reader) if protocol is SecurityProtocol.SSL else DEFAULT_MAPPING,
        max_receive_bytes=reader.integer(RECEIVE_SIZE),
        max_reauth_ms={
            each: PrefixedValues(values, (mechanism_prefix(listener, each), prefix, "")).integer(REAUTHENTICATION)
            for each in mechanisms
        },
        max_login_ms=values.integer("lethe.request.receive.timeout.ms"),
        failure_delay_ms=PrefixedValues(values, ("",)).integer(FAILURE_DELAY),
    )


# --- SASL ---------------------------------------------------------------------------------------------------------


def _mechanisms(reader: PrefixedValues, listener: str) -> tuple[str, ...]:
    """Return the enabled mechanisms that can be served; note a problem if there is none."""
    given = reader.given(MECHANISMS.name)
    names = [name.strip() for name in reader.text(MECHANISMS).split(",") if name.strip()]
    served = tuple(dict.fromkeys(name for name in names if name in _SERVED))
    unknown = [name for name in names if name not in _SERVED and name not in _NOT_VERIFIED]
    left_out = [name for name in names if name in _NOT_VERIFIED]
    remedy = f"use {', '.join(_SERVED)}, here and at the brokers"
    if given is None:
        reason = f"is missing, and Kafka's default is {GSSAPI}, which Lethe cannot verify"
        reader.values.problems.append(Problem(MECHANISMS.name, reader.values.source, None, reason, remedy))
    elif unknown:
        reader.wrong(given, f"has {unknown[0]!r}, which is no mechanism that Lethe has", remedy)
    elif not served:
        reader.wrong(given, f"leaves listener {listener} no mechanism that Lethe can verify", remedy)
    elif left_out:
        reader.values.warnings.append(
            f"{given.place.origin}: {given.place.name}: {', '.join(left_out)} is left out of listener {listener}, "
            f"because Lethe cannot verify it; clients there use {', '.join(served)}"
        )
    return served


def _users(values: Values, listener: str) -> Callable[[], JaasEntry] | None:
    """Return what reads the users of PLAIN; note a problem if there are none to be found."""
    noted = len(values.problems)
    source = read_listener_entry(values, listener, PLAIN)
    if source is None:
        if len(values.problems) == noted:
            reason = f"is missing: PLAIN on listener {listener} has no users"
            name = mechanism_prefix(listener, PLAIN) + JAAS_CONFIG
            values.problems.append(Problem(name, values.source, None, reason, _EXAMPLE))
        return None
    try:
        if not has_users(source.read()):
            values.warnings.append(
                f"{source.place.origin}: {source.place.name}: it has no user_<name>, so nobody can log in to listener "
                f"{listener} by PLAIN"
            )
    except Unusable as error:
        values.problems.append(source.problem(error.reason, error.remedy))
    except JaasError as error:
        values.problems.append(source.problem(str(error), _EXAMPLE))
    return source.read_placed


# --- principals and rights ----------------------------------------------------------------------------------------


def _mapping(reader: PrefixedValues) -> PrincipalMapping:
    given = reader.given(MAPPING.name)
    if given is None:
        return DEFAULT_MAPPING
    try:
        return PrincipalMapping.parse(given.text)
    except ValueError as error:
        reader.wrong_place(given.place, str(error), "correct the rule")
        return DEFAULT_MAPPING


def _access(values: Values) -> AccessSettings | None:
    """Return the settings of the authorizer; None if there is none."""
    reader = PrefixedValues(values, ("",))
    named = reader.given(AUTHORIZER.name)
    if named is None:
        return None
    if named.text not in _AUTHORIZERS:
        remedy = f"use {_AUTHORIZERS[0]}, or remove listeners"
        reader.wrong(named, "is an authorizer whose verdicts Lethe does not know", remedy)
    return AccessSettings(_super_users(reader), reader.boolean(EVERYONE))


def _super_users(reader: PrefixedValues) -> frozenset[Principal]:
    given = reader.given(SUPER_USERS.name)
    if given is None:
        return frozenset()
    try:
        return parse_super_users(given.text)
    except ValueError as error:
        reader.wrong(given, str(error), "separate principals by semicolons")
        return frozenset()


def _check_principal_builder(values: Values) -> None:
    reader = PrefixedValues(values, ("",))
    given = reader.given("principal.builder.class")
    if given is not None and given.text not in _PRINCIPAL_BUILDERS:
        reason = "makes principals in a way that Lethe does not know, so rights would go to the wrong clients"
        reader.wrong(given, reason, "remove the line, here and at the brokers, or remove listeners here")
