"""Metrics about certificates and refusals, which controllers and agents have in common.

    use          listener          whose certificates, and who refuses whom
    listener     INTERNAL, …       of a Kafka listener of this process; it refuses clients
    http         -                 of the HTTP server of this process; it refuses clients
    brokers      INTERNAL, …       of connections to brokers; one of both sides refuses
    zookeeper    -                 of connections to ZooKeeper; one of both sides refuses
    journal      -                 of connections to the brokers of the journal's topic

A scrape first looks whether files have changed (`look`), in a thread because it may have to read them. A use without
certificates has no series: nothing is known about it. Labels have bounded values; which client, user or broker it was
is in the log.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from prometheus_client.core import Metric as Family

from lethe.adapters.config_common import DaemonConfig
from lethe.adapters.metric_families import Labels, values
from lethe.adapters.metric_types import Metric, MetricKind
from lethe.adapters.security.inbound import Inbound
from lethe.adapters.security.refusal_counts import RefusalCounts
from lethe.adapters.security.tls import ClientAuth, TlsMaterial, TlsStatus

EXPIRY: Final = Metric(
    "lethe_certificate_expiry_timestamp_seconds",
    MetricKind.GAUGE,
    "When the certificate that this process shows ends, or an intermediate one in its key store if that ends earlier; "
    "no series without a certificate",
    ("use", "listener"),
)
TRUST_EXPIRY: Final = Metric(
    "lethe_trusted_certificate_expiry_timestamp_seconds",
    MetricKind.GAUGE,
    "When the first of the certificates in the truststore ends, without those that had ended when it was read; no "
    "series without a truststore. Whether peers depend on that one is not known",
    ("use", "listener"),
)
OUTDATED: Final = Metric(
    "lethe_certificate_files_unusable",
    MetricKind.GAUGE,
    "1 while files of certificates or passwords have changed and cannot be used, so that what was read before stays "
    "in use; the log has the reason",
    ("use", "listener"),
)
REFUSED: Final = Metric(
    "lethe_authentication_refused_total",
    MetricKind.COUNTER,
    "Clients that this process refused; reasons: tls (refused in the handshake), login (wrong), no_login (asked before "
    "the login), unfinished (broken off or too slow), unchecked (could not be checked here), token (HTTP). The log has "
    "the addresses",
    ("use", "listener", "reason"),
)
REFUSED_AT_PEERS: Final = Metric(
    "lethe_own_authentication_refused_total",
    MetricKind.COUNTER,
    "Connections of this process to brokers and ZooKeeper that one side refused in the handshake of TLS (tls), and "
    "failed logins (login); also those before it leads. The log has the peers",
    ("use", "listener", "reason"),
)
DENIED: Final = Metric(
    "lethe_authorization_refused_total",
    MetricKind.COUNTER,
    "Requests that this process refused, or in part, because the client lacks the right; only with "
    "`authorizer.class.name`. The log has the principals and the command that gives the right",
    ("operation", "resource_type"),
)
METRICS: Final = (EXPIRY, TRUST_EXPIRY, OUTDATED, REFUSED, REFUSED_AT_PEERS, DENIED)
REMARK: Final = (
    "`use` is listener, http, brokers, zookeeper or journal; `listener` is the name of the Kafka listener, and empty "
    "where there is none. Lack of rights at brokers: `lethe_controller_broker_refuses`."
)


class Use(enum.StrEnum):
    """What certificates and logins are for."""

    LISTENER = "listener"
    HTTP = "http"
    BROKERS = "brokers"
    ZOOKEEPER = "zookeeper"
    JOURNAL = "journal"


class SecurityPart(NamedTuple):
    """One use in one process."""

    use: Use
    listener: str = ""
    material: TlsMaterial | None = None
    refused: RefusalCounts | None = None

    @property
    def labels(self) -> dict[str, str]:
        return {"use": self.use.value, "listener": self.listener}

    @property
    def serves(self) -> bool:
        return self.use in (Use.LISTENER, Use.HTTP)

    @property
    def trusts(self) -> bool:
        """False if the truststore is not used: this side asks for no certificate."""
        return not self.serves or (
            self.material is not None and self.material.settings.client_auth is not ClientAuth.NONE
        )


@dataclass(slots=True)
class SecurityMetrics:
    """The families of one process. Everything is read where it is kept."""

    parts: tuple[SecurityPart, ...] = ()
    inbound: Inbound | None = None
    statuses: tuple[tuple[SecurityPart, TlsStatus], ...] = ()
    """As of the latest look."""

    def look(self) -> None:
        """Read the files that have changed. Call it in a thread."""
        self.statuses = tuple((each, each.material.status()) for each in self.parts if each.material is not None)

    def families(self) -> Iterator[Family]:
        """Return the families of a scrape."""
        yield values(EXPIRY, _timestamps((part, status.expires_ms) for part, status in self.statuses))
        trusted = ((part, status.trust_expires_ms) for part, status in self.statuses if part.trusts)
        yield values(TRUST_EXPIRY, _timestamps(trusted))
        yield values(OUTDATED, [(part.labels, status.is_outdated) for part, status in self.statuses])
        yield values(REFUSED, self._refused(serving=True))
        yield values(REFUSED_AT_PEERS, self._refused(serving=False))
        access = None if self.inbound is None else self.inbound.access
        denied = {} if access is None else access.refused_by_right
        yield values(
            DENIED,
            [({"operation": right.value, "resource_type": what.value}, n) for (right, what), n in denied.items()],
        )

    def _refused(self, *, serving: bool) -> Iterator[tuple[Labels, float]]:
        for part in self.parts:
            if part.refused is not None and part.serves is serving:
                for reason, count in part.refused.by_reason.items():
                    yield {**part.labels, "reason": reason.value}, count


def security_metrics(config: DaemonConfig, inbound: Inbound) -> SecurityMetrics:
    """Return the metrics of a process with these settings; `inbound` is the security of its listeners."""
    parts = [
        *(SecurityPart(Use.LISTENER, name, inbound.tls.get(name), counts) for name, counts in inbound.refused.items()),
        SecurityPart(Use.HTTP, "", config.http.tls, config.http.refused),
        *(
            SecurityPart(Use.BROKERS, config.reach.listener or "", each.material, each.refused)
            for each in config.reach.security.values()
        ),
        SecurityPart(
            Use.ZOOKEEPER,
            "",
            None if config.zookeeper.tls is None else config.zookeeper.tls.material,
            config.zookeeper.refused,
        ),
    ]
    if config.journal_topic is not None:
        # aiokafka makes its connections, and tells refusals to the log only.
        parts += [SecurityPart(Use.JOURNAL, "", each.material) for each in config.journal_topic.reach.security.values()]
    return SecurityMetrics(tuple(parts), inbound)


def _timestamps(rows: Iterable[tuple[SecurityPart, int | None]]) -> list[tuple[Labels, float]]:
    return [(part.labels, ends_ms / 1000) for part, ends_ms in rows if ends_ms is not None]
