"""Metrics of requests to brokers, of requests from brokers, and of clients forwarded to brokers."""

from __future__ import annotations

from typing import Final

from lethe.adapters.metric_types import Metric, MetricKind

# --- channels -----------------------------------------------------------------------------------------------------

_MANAGER: Final = "kafka.controller:type=ControllerChannelManager"
TOTAL_QUEUE_SIZE: Final = Metric(
    "kafka_controller_controllerchannelmanager_totalqueuesize",
    MetricKind.GAUGE,
    "Requests that wait for brokers, all together",
    mbean=f"{_MANAGER},name=TotalQueueSize",
)
CHANNEL_QUEUE_SIZE: Final = Metric(
    "kafka_controller_controllerchannelmanager_queuesize",
    MetricKind.GAUGE,
    "Requests that wait for this broker",
    ("broker_id",),
    f"{_MANAGER},name=QueueSize,broker-id=N",
)
CHANNEL_QUEUE_TIME: Final = Metric(
    "kafka_controller_controllerchannelmanager_requestrateandqueuetimems",
    MetricKind.SUMMARY,
    "Milliseconds that requests waited before they were first sent",
    ("broker_id",),
    f"{_MANAGER},name=RequestRateAndQueueTimeMs,broker-id=N",
)
CHANNEL_BACKLOG: Final = Metric(
    "lethe_broker_channel_backlog_bytes",
    MetricKind.GAUGE,
    "Size of the requests that wait for this broker, as they would be sent; an estimate for those not encoded yet",
    ("broker_id",),
)
CHANNEL_OLDEST: Final = Metric(
    "lethe_broker_channel_oldest_seconds",
    MetricKind.GAUGE,
    "How long the oldest request has waited or been tried",
    ("broker_id",),
)
CHANNEL_FAILING: Final = Metric(
    "lethe_broker_channel_failing_seconds",
    MetricKind.GAUGE,
    "How long no request has got through to this registered broker; 0: it answers. Look at its process and listener",
    ("broker_id",),
)
CHANNEL_LATENCY: Final = Metric(
    "lethe_broker_request_seconds",
    MetricKind.HISTOGRAM,
    "Time from sending a request to its answer, for the attempt that was answered",
    ("broker_id", "api"),
)
CHANNEL_RETRIES: Final = Metric(
    "lethe_broker_request_retries_total",
    MetricKind.COUNTER,
    "Attempts that failed and were repeated; reasons: unreachable, login (failed), tls, lost, timeout, garbage",
    ("broker_id", "reason"),
)
CHANNEL_OVERSIZED: Final = Metric(
    "lethe_broker_request_oversized_total",
    MetricKind.COUNTER,
    "Requests above lethe.broker.request.max.bytes, which one partition exceeded",
    ("broker_id",),
)

# --- requests of brokers ------------------------------------------------------------------------------------------

_REQUESTS: Final = "kafka.network:type=RequestMetrics"
REQUEST_TIME: Final = Metric(
    "kafka_network_requestmetrics_totaltimems",
    MetricKind.SUMMARY,
    "Milliseconds from taking a request to the controller, of a broker or a client, to its answer",
    ("request",),
    f"{_REQUESTS},name=TotalTimeMs,request=NAME",
)
REQUEST_ERRORS: Final = Metric(
    "kafka_network_requestmetrics_errorspersec_count",
    MetricKind.COUNTER,
    "Errors in answers to brokers and clients, NONE included; those of topics and partitions too",
    ("request", "error"),
    f"{_REQUESTS},name=ErrorsPerSec,request=NAME,error=NAME",
)
LISTENER_CONNECTIONS: Final = Metric(
    "lethe_controller_listener_connections", MetricKind.GAUGE, "Connections of brokers and clients"
)
FORWARDED_CONNECTIONS: Final = Metric(
    "lethe_controller_relay_connections", MetricKind.GAUGE, "Connections of clients that are forwarded to a broker"
)
FORWARDED_REQUESTS: Final = Metric(
    "lethe_controller_relay_requests_total", MetricKind.COUNTER, "Requests of clients forwarded to brokers"
)
FORWARDED_BYTES_IN: Final = Metric(
    "lethe_controller_relay_request_bytes_total", MetricKind.COUNTER, "Bytes forwarded from clients to brokers"
)
FORWARDED_BYTES_OUT: Final = Metric(
    "lethe_controller_relay_answer_bytes_total", MetricKind.COUNTER, "Bytes returned from brokers to clients"
)
FORWARDING_FAILURES: Final = Metric(
    "lethe_controller_relay_failures_total",
    MetricKind.COUNTER,
    "Connections of clients closed because no broker could be reached, or theirs was lost",
)

GROUPS: Final[tuple[tuple[str, str, tuple[Metric, ...]], ...]] = (
    (
        "Channels to brokers",
        "The series of a broker go when its channel is closed.",
        (
            TOTAL_QUEUE_SIZE,
            CHANNEL_QUEUE_SIZE,
            CHANNEL_QUEUE_TIME,
            CHANNEL_BACKLOG,
            CHANNEL_OLDEST,
            CHANNEL_FAILING,
            CHANNEL_LATENCY,
            CHANNEL_RETRIES,
            CHANNEL_OVERSIZED,
        ),
    ),
    (
        "Requests to the controller",
        "Where `listeners` is set: requests of brokers, and those of clients that only a controller can answer.",
        (REQUEST_TIME, REQUEST_ERRORS, LISTENER_CONNECTIONS),
    ),
    (
        "Clients forwarded to brokers",
        "Where `listeners` is set.",
        (FORWARDED_CONNECTIONS, FORWARDED_REQUESTS, FORWARDED_BYTES_IN, FORWARDED_BYTES_OUT, FORWARDING_FAILURES),
    ),
)
"""Heading, remark and metrics of each part of the page."""
