"""Mapping of DescribeCluster and FindCoordinator, and their responses, to Kafka's schemas."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from lethe.protocol.kafka.cluster_queries import (
    BROKERS,
    GROUP,
    Coordinator,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedBroker,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from lethe.protocol.kafka.codec_control import Binding
from lethe.protocol.kafka.codec_layout import Shape
from lethe.protocol.kafka.codec_primitives import Unencodable

_SEVERAL_KEYS_SINCE: Final = 4


# --- DescribeCluster ----------------------------------------------------------------------------------------------


def describe_cluster_request(_version: int) -> Binding:
    names = ("include_cluster_authorized_operations", "endpoint_type")
    return Binding(
        shapes={"DescribeClusterRequest": Shape(DescribeClusterRequest, names, (BROKERS,))},
        items=attrgetter(*names),
    )


def describe_cluster_response(_version: int) -> Binding:
    names = (
        *("cluster_id", "controller_id", "brokers", "cluster_authorized_operations"),
        *("error_code", "error_message", "endpoint_type", "throttle_time"),
    )
    return Binding(
        shapes={
            "DescribeClusterResponse": Shape(DescribeClusterResponse, names, (BROKERS, 0)),
            "DescribeClusterBroker": Shape(DescribedBroker, ("broker_id", "host", "port", "rack")),
        },
        items=attrgetter(
            *("cluster_id", "controller_id", "brokers", "cluster_authorized_operations"),
            *("error", "error_message", "endpoint_type", "throttle_time_ms"),
        ),
    )


# --- FindCoordinator ----------------------------------------------------------------------------------------------


def find_coordinator_request(version: int) -> Binding:
    if version >= _SEVERAL_KEYS_SINCE:
        return Binding(
            shapes={"FindCoordinatorRequest": Shape(FindCoordinatorRequest, ("coordinator_keys", "key_type"))},
            items=attrgetter("keys", "key_type"),
        )
    return Binding(
        shapes={"FindCoordinatorRequest": Shape(_of_one_key, ("key", "key_type"), (GROUP,))},
        items=lambda request: (_only(request.keys), request.key_type),
    )


def find_coordinator_response(version: int) -> Binding:
    if version >= _SEVERAL_KEYS_SINCE:
        row = ("key", "error_code", "error_message", "node_id", "host", "port")
        return Binding(
            shapes={
                "FindCoordinatorResponse": Shape(FindCoordinatorResponse, ("coordinators", "throttle_time")),
                "Coordinator": Shape(Coordinator, row),
            },
            items=attrgetter("coordinators", "throttle_time_ms"),
        )
    names = ("error_code", "node_id", "host", "port", "error_message", "throttle_time")
    return Binding(
        shapes={"FindCoordinatorResponse": Shape(_of_one_coordinator, names, (None, 0))},
        items=_one_coordinator,
    )


def _of_one_key(key: str, key_type: int) -> FindCoordinatorRequest:
    return FindCoordinatorRequest((key,), key_type)


def _of_one_coordinator(
    error: int, node_id: Any, host: str, port: int, error_message: str | None, throttle_time_ms: int
) -> FindCoordinatorResponse:
    return FindCoordinatorResponse((Coordinator("", error, error_message, node_id, host, port),), throttle_time_ms)


def _one_coordinator(response: FindCoordinatorResponse) -> Sequence[Any]:
    only: Coordinator = _only(response.coordinators)
    return (only.error, only.node_id, only.host, only.port, only.error_message, response.throttle_time_ms)


def _only(several: Sequence[Any]) -> Any:
    if len(several) != 1:
        raise Unencodable(f"FindCoordinator before version {_SEVERAL_KEYS_SINCE} is about one key, not {len(several)}")
    return several[0]
