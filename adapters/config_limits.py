"""Limits on what peers of a daemon's listeners may take, under Kafka's names if Kafka has them."""

from __future__ import annotations

from typing import Final

from lethe.adapters.kafka.limits import ServerLimits
from lethe.adapters.properties import MAX_INT, Property, PropertyKind, Values

LIMITS: Final = (
    Property(
        "socket.request.max.bytes",
        PropertyKind.INTEGER,
        str(100 * 1024 * 1024),
        "Largest frame that is taken from a peer. What is answered here has a smaller limit, except for what "
        "controllers send to agents: 4 MiB where each row has replicas or settings, 2 MiB where it names a topic or "
        "partition (Metadata, DeleteTopics, ElectLeaders, ListPartitionReassignments), 1 MiB for all others.",
        unit="bytes",
        minimum=1024,
        maximum=MAX_INT,
    ),
    Property(
        "queued.max.request.bytes",
        PropertyKind.INTEGER,
        str(256 * 1024 * 1024),
        "Bytes that unfinished requests of all connections may take together; beyond, the connection with the "
        "oldest one is closed. 0 or less sets no limit, as Kafka's default of -1 does; `socket.request.max.bytes` "
        "is always allowed.",
        unit="bytes",
        minimum=-1,
    ),
    Property(
        "lethe.request.receive.timeout.ms",
        PropertyKind.INTEGER,
        "30000",
        "How long a request may take from its first byte to its last; then its connection is closed. What a "
        "controller passes on to a broker does not count. TLS and login of a connection together have this limit, too.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "max.connections",
        PropertyKind.INTEGER,
        "10000",
        "Connections taken at once, on all listeners together; further ones are closed. Fewer if the process may "
        "not open so many files, which the log says.",
        unit="connections",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        "connections.max.idle.ms",
        PropertyKind.INTEGER,
        "600000",
        "A connection on which a peer neither sends nor reads for so long is closed.",
        unit="milliseconds",
        minimum=1,
        maximum=MAX_INT,
    ),
)


def read_limits(values: Values) -> ServerLimits:
    return ServerLimits(
        max_request_bytes=values.integer("socket.request.max.bytes"),
        max_connections=values.integer("max.connections"),
        max_idle_ms=values.integer("connections.max.idle.ms"),
        max_queued_bytes=max(0, values.integer("queued.max.request.bytes")),
        max_receive_ms=values.integer("lethe.request.receive.timeout.ms"),
    )
