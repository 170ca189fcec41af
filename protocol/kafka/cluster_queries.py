"""DescribeCluster and FindCoordinator: which brokers there are, and which of them coordinates what.

A version of FindCoordinator before 4 is about one key, and its response does not repeat the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.protocol.kafka.consumers import NO_AUTHORIZED_OPERATIONS
from lethe.protocol.vocabulary import NO_BROKER, BrokerId

BROKERS: Final = 1
"""Kafka's number for endpoints of brokers. In version 0 it is the only one."""
GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
"""Kafka's numbers for what is coordinated."""


class DescribedBroker(NamedTuple):
    id: BrokerId
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = BROKERS


@dataclass(frozen=True, slots=True)
class DescribeClusterResponse:
    cluster_id: str
    controller_id: BrokerId = NO_BROKER
    brokers: tuple[DescribedBroker, ...] = ()
    cluster_authorized_operations: int = NO_AUTHORIZED_OPERATIONS
    error: int = 0
    error_message: str | None = None
    endpoint_type: int = BROKERS
    throttle_time_ms: int = 0


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest:
    keys: tuple[str, ...]
    key_type: int = GROUP


class Coordinator(NamedTuple):
    """The coordinator of one key, or the error; then there is no broker."""

    key: str
    error: int
    error_message: str | None = ""
    node_id: BrokerId = NO_BROKER
    host: str = ""
    port: int = -1


@dataclass(frozen=True, slots=True)
class FindCoordinatorResponse:
    coordinators: tuple[Coordinator, ...]
    throttle_time_ms: int = 0


DiscoveryRequest = DescribeClusterRequest | FindCoordinatorRequest
DiscoveryResponse = DescribeClusterResponse | FindCoordinatorResponse
