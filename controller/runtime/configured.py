"""Parts of a controller that are made from its configuration: core settings, connections to brokers, listener."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from lethe.adapters.descriptors import connections_that_fit
from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.security.inbound import Inbound
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.events import External
from lethe.controller.runtime.brokers import Connect
from lethe.controller.runtime.configuration import ControllerConfig
from lethe.controller.runtime.listener import BrokerListener, proxy_for
from lethe.controller.runtime.metrics import ControllerMetrics
from lethe.controller.runtime.probing import SECURE_AFTER_FIRST_MS, SECURE_LIMIT_MS, Prober
from lethe.protocol.vocabulary import Endpoint, SecurityProtocol


def core_config(config: ControllerConfig, endpoints: tuple[Endpoint, ...] = ()) -> CoreConfig:
    """Return the core's settings. `endpoints` are the controller's advertised endpoints, with real ports."""
    return CoreConfig(
        controller_id=config.controller_id,
        ibp=config.inter_broker_protocol,
        delete_topic_enable=config.delete_topic_enable,
        protected_topics=config.protected_topics,
        pace=config.pace,
        grace=config.grace,
        trash_free_percent=config.trash_free_percent,
        new_topics=config.new_topics,
        mutation_quota_window_s=config.mutation_quota_window_s,
        topic_policy=config.topic_policy,
        unclean_leader_election_enable=config.unclean_leader_election,
        auto_leader_rebalance_enable=config.auto_leader_rebalance,
        leader_imbalance_check_interval_ms=config.leader_imbalance_check_interval_ms,
        leader_imbalance_per_broker_percentage=config.leader_imbalance_per_broker_percentage,
        listener_choice=config.reach.choice,
        principal=config.reach.principal,
        endpoints=endpoints,
        takeover=config.takeover,
        takeover_grace_ms=config.takeover_grace_ms,
        takeover_interval_ms=config.takeover_interval_ms,
        takeover_interval_max_ms=config.takeover_interval_max_ms,
        tombstone_timeout_ms=config.tombstone_timeout_ms,
        offline_replicas=config.offline_replicas,
        max_operations_per_group=config.operations_per_group,
        partitions_per_slice=config.partitions_per_slice,
    )


def connector(config: ControllerConfig) -> Callable[[Endpoint], Awaitable[KafkaConnection]]:
    """Return a function that opens connections to brokers. It raises ConnectionFailed."""

    async def connect(endpoint: Endpoint) -> KafkaConnection:
        return await config.reach.open(
            endpoint,
            str(config.controller_id),
            connect_timeout_ms=config.controller_socket_timeout_ms,
            request_timeout_ms=config.controller_socket_timeout_ms,
            max_response_bytes=config.limits.max_request_bytes,
        )

    return connect


def prober(config: ControllerConfig, connect: Connect) -> Prober:
    """Return the prober, which waits longer where connections take handshakes and logins."""
    if config.reach.choice.spoken == (SecurityProtocol.PLAINTEXT,):
        return Prober(connect, config.inter_broker_protocol)
    return Prober(connect, config.inter_broker_protocol, SECURE_LIMIT_MS, SECURE_AFTER_FIRST_MS)


def listener_for(
    config: ControllerConfig, post: Callable[[External], None], metrics: ControllerMetrics, inbound: Inbound
) -> BrokerListener | None:
    """Return the listener for brokers and clients, not yet bound; None where `listeners` is not set."""
    if not config.listeners:
        return None
    proxy = proxy_for(
        str(config.controller_id),
        connect_timeout_ms=config.relay_connect_timeout_ms,
        max_answer_bytes=config.limits.max_request_bytes,
        reach=config.reach,
    )
    return BrokerListener(
        post,
        metrics,
        controller_id=config.controller_id,
        proxy=proxy,
        inbound=inbound,
        max_wait_ms=config.request_timeout_ms,
        limits=replace(config.limits, max_connections=connections_that_fit(config.limits.max_connections)),
    )
