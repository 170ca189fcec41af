"""The properties for SASL logins and for the security protocol of connections, with Kafka's names where it has them."""

from __future__ import annotations

from typing import Final

from lethe.adapters.properties import Property, PropertyKind
from lethe.adapters.security.jaas_file import JAAS_FILE
from lethe.adapters.security.login import GSSAPI
from lethe.protocol.vocabulary import SecurityProtocol

_PROTOCOLS: Final = tuple(protocol.name for protocol in SecurityProtocol)
_MECHANISMS: Final = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; GSSAPI, which is Kafka's default, is refused"

JAAS_CONFIG: Final = "sasl.jaas.config"

TOKEN_URL: Final = Property(
    "sasl.oauthbearer.token.endpoint.url",
    PropertyKind.TEXT,
    None,
    "`file:///path` of the file with the token for OAUTHBEARER, which is read at each login. Other URLs are refused: "
    "let a program renew the file.",
)
TOKEN_COMMAND: Final = Property(
    "lethe.sasl.oauthbearer.token.command",
    PropertyKind.TEXT,
    None,
    "A command that prints the token for OAUTHBEARER, with its arguments, instead. It is run at each login, without a "
    "shell.",
)
INTER_BROKER_PROTOCOL: Final = Property(
    "security.inter.broker.protocol",
    PropertyKind.TEXT,
    None,
    "Security protocol among brokers, whose listener then has the protocol's name. Without it the protocol is that of "
    "`inter.broker.listener.name` in `listener.security.protocol.map`.",
    choices=_PROTOCOLS,
)
INTER_BROKER_MECHANISM: Final = Property(
    "sasl.mechanism.inter.broker.protocol",
    PropertyKind.TEXT,
    GSSAPI,
    f"SASL mechanism of connections to brokers: {_MECHANISMS}.",
)
CLIENT_PROTOCOL: Final = Property(
    "security.protocol",
    PropertyKind.TEXT,
    "PLAINTEXT",
    "Security protocol of connections to brokers: the first listener that has it is used.",
    choices=_PROTOCOLS,
)
CLIENT_LISTENER: Final = Property(
    "lethe.listener.name",
    PropertyKind.TEXT,
    None,
    "Name of the brokers' listener that commands connect to, and no other; it has the protocol of `security.protocol`.",
)
CLIENT_MECHANISM: Final = Property(
    "sasl.mechanism", PropertyKind.TEXT, GSSAPI, f"SASL mechanism of connections to brokers: {_MECHANISMS}."
)


def _jaas(doc: str) -> tuple[Property, ...]:
    return (
        Property(JAAS_CONFIG, PropertyKind.SECRET, None, doc),
        Property(
            f"{JAAS_CONFIG}.file",
            PropertyKind.TEXT,
            None,
            f"A file that holds `{JAAS_CONFIG}` instead. It is read at each login, so a password can change without a "
            "restart.",
        ),
    )


SASL_BETWEEN_BROKERS: Final = (
    INTER_BROKER_PROTOCOL,
    INTER_BROKER_MECHANISM,
    *_jaas(
        "The login module, user and password for connections to brokers. As in Kafka, "
        "`listener.name.<listener>.<mechanism>.sasl.jaas.config` (all in small letters) comes first, then the JAAS "
        "file; this one, which Kafka's brokers ignore, comes last."
    ),
    TOKEN_URL,
    TOKEN_COMMAND,
)
"""For daemons, which connect to brokers as these do to each other. `JAAS_FILE` is among those for ZooKeeper."""

SASL_OF_CLIENTS: Final = (
    CLIENT_PROTOCOL,
    CLIENT_MECHANISM,
    *_jaas("The login module, user and password. The section `KafkaClient` of the JAAS file counts without it."),
    JAAS_FILE,
    TOKEN_URL,
    TOKEN_COMMAND,
)
"""For commands, which connect as Kafka's clients do."""
