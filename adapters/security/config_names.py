"""The properties for TLS, with Kafka's names: `TLS` and `ZOOKEEPER_TLS` are parts of a schema and of its page."""

from __future__ import annotations

from typing import Final

from lethe.adapters.properties import Property, PropertyKind
from lethe.adapters.security.prefixed import with_files

OLD_PROTOCOLS: Final = frozenset({"TLSv1.1", "TLSv1", "SSLv3", "SSLv2", "SSLv2Hello", "TLS", "SSL"})
"""Names of versions in Java that are not offered."""

_TYPES: Final = ("PEM", "PKCS12", "JKS")
_BY_CONTENT: Final = "PKCS12 and JKS stand for each other, as in Java: the file decides. JKS needs Java's `keytool`"

KEYSTORE_TYPE: Final = Property(
    "ssl.keystore.type", PropertyKind.TEXT, "JKS", f"Type of the key store. {_BY_CONTENT}.", choices=_TYPES
)
TRUSTSTORE_TYPE: Final = Property(
    "ssl.truststore.type", PropertyKind.TEXT, "JKS", f"Type of the truststore. {_BY_CONTENT}.", choices=_TYPES
)
PROTOCOL: Final = Property(
    "ssl.protocol",
    PropertyKind.TEXT,
    "TLSv1.3",
    "TLSv1.2 keeps connections to others from using a later version, whatever is enabled; listeners follow "
    "`ssl.enabled.protocols` alone.",
    choices=("TLSv1.3", "TLSv1.2", "TLS"),
)
ENABLED_PROTOCOLS: Final = Property(
    "ssl.enabled.protocols",
    PropertyKind.LIST,
    "TLSv1.2,TLSv1.3",
    "Versions of TLS that are used. Older ones in the list stay off, with a warning.",
)
CIPHER_SUITES: Final = Property(
    "ssl.cipher.suites",
    PropertyKind.LIST,
    None,
    "Cipher suites by IANA's names; without it OpenSSL chooses. Suites of one version of TLS switch the other off; "
    "those of TLS 1.3 are named all or not at all.",
)
ENDPOINT_IDENTIFICATION: Final = Property(
    "ssl.endpoint.identification.algorithm",
    PropertyKind.TEXT,
    "https",
    "With https a server's certificate has to have the name that was connected to among its subject alternative names. "
    "A blank value switches this off: any server with a trusted certificate is believed.",
)
CLIENT_AUTH: Final = Property(
    "ssl.client.auth",
    PropertyKind.TEXT,
    "none",
    "Whether listeners ask for certificates of clients. As in Kafka, a SASL_SSL listener does so only if "
    "`listener.name.<listener>.ssl.client.auth` says so.",
    choices=("none", "requested", "required"),
)

TLS: Final = with_files(
    (
        Property(
            "ssl.keystore.location",
            PropertyKind.TEXT,
            None,
            "File with the private key and its certificates. It is read again when it changes. Each `ssl.` property "
            "can be set for one listener, as `listener.name.<listener in small letters>.ssl.…`.",
        ),
        KEYSTORE_TYPE,
        Property("ssl.keystore.password", PropertyKind.SECRET, None, "Password of the key store; PEM has none."),
        Property(
            "ssl.key.password",
            PropertyKind.SECRET,
            None,
            "Password of the private key, where it is encrypted in PEM, or has another one than its JKS store.",
        ),
        Property(
            "ssl.keystore.key",
            PropertyKind.SECRET,
            None,
            "The private key itself, as PEM, instead of a file; with `ssl.keystore.type=PEM`.",
        ),
        Property(
            "ssl.keystore.certificate.chain",
            PropertyKind.TEXT,
            None,
            "The certificates of that key themselves, as PEM.",
        ),
        Property(
            "ssl.truststore.location",
            PropertyKind.TEXT,
            None,
            "File with the certificates that are trusted. It is read again when it changes. Without it connections to "
            "others trust the system's authorities.",
        ),
        TRUSTSTORE_TYPE,
        Property("ssl.truststore.password", PropertyKind.SECRET, None, "Password of the truststore; PEM has none."),
        Property(
            "ssl.truststore.certificates",
            PropertyKind.TEXT,
            None,
            "The trusted certificates themselves, as PEM, instead of a file; with `ssl.truststore.type=PEM`.",
        ),
        PROTOCOL,
        ENABLED_PROTOCOLS,
        CIPHER_SUITES,
        ENDPOINT_IDENTIFICATION,
        CLIENT_AUTH,
    )
)

ZOOKEEPER_CLIENT_ENABLE: Final = Property(
    "zookeeper.ssl.client.enable",
    PropertyKind.BOOLEAN,
    "false",
    "Connect to ZooKeeper with TLS (its `secureClientPort`).",
)
ZOOKEEPER_SOCKET: Final = Property(
    "zookeeper.clientCnxnSocket",
    PropertyKind.TEXT,
    None,
    "The class that Kafka's brokers connect to ZooKeeper by. With TLS they need "
    "`org.apache.zookeeper.ClientCnxnSocketNetty`, and another one is refused here too.",
)
ZOOKEEPER_PROTOCOL: Final = Property(
    "zookeeper.ssl.protocol",
    PropertyKind.TEXT,
    None,
    "The version of TLS where `zookeeper.ssl.enabled.protocols` is not given; both are enabled without either.",
    choices=("TLSv1.3", "TLSv1.2", "TLS"),
)
ZOOKEEPER_ENABLED_PROTOCOLS: Final = Property(
    "zookeeper.ssl.enabled.protocols", PropertyKind.LIST, None, "As `ssl.enabled.protocols`."
)
ZOOKEEPER_CIPHER_SUITES: Final = Property(
    "zookeeper.ssl.cipher.suites", PropertyKind.LIST, None, "As `ssl.cipher.suites`."
)
ZOOKEEPER_ENDPOINT_IDENTIFICATION: Final = Property(
    "zookeeper.ssl.endpoint.identification.algorithm",
    PropertyKind.TEXT,
    "https",
    "As `ssl.endpoint.identification.algorithm`.",
)
ZOOKEEPER_REVOCATION: Final = tuple(
    Property(
        name, PropertyKind.BOOLEAN, "false", "Looking up revoked certificates is not supported: only false is taken."
    )
    for name in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable")
)

ZOOKEEPER_TLS: Final = with_files(
    (
        ZOOKEEPER_CLIENT_ENABLE,
        ZOOKEEPER_SOCKET,
        Property(
            "zookeeper.ssl.keystore.location",
            PropertyKind.TEXT,
            None,
            "File with the private key and the certificate for ZooKeeper. It is read again when it changes.",
        ),
        Property(
            "zookeeper.ssl.keystore.type",
            PropertyKind.TEXT,
            None,
            "Type of the key store: PEM, PKCS12 or JKS; the file decides where it is not given.",
        ),
        Property(
            "zookeeper.ssl.keystore.password",
            PropertyKind.SECRET,
            None,
            "Password of the key store and of its key, also of an encrypted key in PEM.",
        ),
        Property(
            "zookeeper.ssl.truststore.location",
            PropertyKind.TEXT,
            None,
            "File with the certificates that are trusted. It is read again when it changes. Without it the system's "
            "authorities are trusted.",
        ),
        Property(
            "zookeeper.ssl.truststore.type",
            PropertyKind.TEXT,
            None,
            "Type of the truststore: PEM, PKCS12 or JKS; the file decides where it is not given.",
        ),
        Property("zookeeper.ssl.truststore.password", PropertyKind.SECRET, None, "Password of the truststore."),
        ZOOKEEPER_PROTOCOL,
        ZOOKEEPER_ENABLED_PROTOCOLS,
        ZOOKEEPER_CIPHER_SUITES,
        ZOOKEEPER_ENDPOINT_IDENTIFICATION,
        *ZOOKEEPER_REVOCATION,
    )
)
