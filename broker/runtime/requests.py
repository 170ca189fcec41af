"""Answer the requests that arrive on the agent's listeners.

To clients an agent is a broker that has topics and no records. What it offers in ApiVersions:

    request                                             answered
    LeaderAndIsr, StopReplica, UpdateMetadata           by the core, step by step
    Metadata, DescribeCluster, FindCoordinator          from the metadata cache
    DescribeLogDirs                                     from the replicas
    DescribeConfigs                                     from the agent's file and ZooKeeper
    AlterConfigs, IncrementalAlterConfigs               written to ZooKeeper
    ListGroups                                          none: an agent coordinates no groups
    requests that only a controller answers             NOT_CONTROLLER, so that clients look for the controller

Everything else is missing, as DescribeTopicPartitions is with brokers of Kafka in ZooKeeper mode: clients take another
way, or say that the broker does not support the request. ControlledShutdown and AlterPartition are for controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from lethe.adapters.kafka.server import Close, Handler, Peer
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.broker.core.auto_creation import missing_topics
from lethe.broker.core.cluster_queries import answer_describe_cluster, answer_find_coordinator
from lethe.broker.core.config_alteration import alterer
from lethe.broker.core.config_queries import OwnSettings, answer_describe_configs, needed_paths
from lethe.broker.core.queries import (
    NOTHING_CREATED,
    RequestContext,
    answer_describe_log_dirs,
    answer_metadata,
)
from lethe.broker.runtime.auto_creation import AutoCreation
from lethe.broker.runtime.log_dirs import Space
from lethe.broker.runtime.loop import AgentLoop, RequestRefused
from lethe.broker.runtime.stored_configs import StoredConfigs
from lethe.protocol.kafka.admin_configs import (
    AlterConfigsRequest,
    ConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.cluster_queries import DescribeClusterRequest, FindCoordinatorRequest
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.control import Addressed, ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    Request,
    Response,
)
from lethe.protocol.kafka.to_controller import AdminRequest, error_response
from lethe.protocol.kafka.versions import SPOKEN, VersionRange

SERVED: Final[Mapping[ApiKey, VersionRange]] = {
    api: SPOKEN[api]
    for api in (
        ApiKey.METADATA,
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.LIST_GROUPS,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_CLUSTER,
    )
}


class Requests:
    """Answers for all listeners of an agent."""

    def __init__(
        self,
        loop: AgentLoop,
        cluster_id: str,
        own: OwnSettings,
        *,
        space: Callable[[], Mapping[str, Space]],
        session: Callable[[], ZooKeeperSession | None],
        auto_creation: AutoCreation | None,
    ) -> None:
        """`space` reads how full the log directories are. Without `auto_creation` no client creates topics by naming
        them."""
        self._auto_creation = auto_creation
        self._loop = loop
        self._own = own
        self._stored = StoredConfigs(session, own)
        self._cluster_id = cluster_id
        self._space = space

    def handler(self, listener: str) -> Handler:
        """Return the handler of the requests on this listener."""

        async def handle(header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
            if isinstance(request, AdminRequest) and not isinstance(request, ConfigsRequest):
                return error_response(request, ErrorCode.NOT_CONTROLLER)
            answer = await self._answer(request, RequestContext(listener, header.version, peer.sender))
            return answer or Close(f"{peer} asked {header.api.name}, which an agent does not answer")

        return handle

    async def _answer(self, request: Request, context: RequestContext) -> Response | Close | None:
        cache = self._loop.state.cache
        match request:
            case Addressed():
                return await self._control(request)
            case MetadataRequest():
                return await self._metadata(request, context)
            case DescribeClusterRequest():
                return answer_describe_cluster(cache, request, context, self._cluster_id)
            case FindCoordinatorRequest():
                return answer_find_coordinator(cache, request, context)
            case ListGroupsRequest():
                return ListGroupsResponse(ErrorCode.NONE)
            case DescribeConfigsRequest():
                stored = await self._stored.read(needed_paths(cache, request, self._own.broker_id))
                return answer_describe_configs(cache, request, self._own, stored)
            case AlterConfigsRequest() | IncrementalAlterConfigsRequest():
                by = partial(alterer, cache, self._own, context.sender)
                return await self._stored.alter(request, by, client=context.sender.client.principal)
            case DescribeLogDirsRequest():
                return answer_describe_log_dirs(self._loop.state, request, await asyncio.to_thread(self._space))
            case _:
                return None

    async def _metadata(self, request: MetadataRequest, context: RequestContext) -> Response:
        cache = self._loop.state.cache
        created = NOTHING_CREATED
        if self._auto_creation is not None:
            missing = missing_topics(cache, request, context.sender)
            created = {**missing.refused, **await self._auto_creation.create(missing.creatable)}
        return answer_metadata(cache, request, context, cluster_id=self._cluster_id, created=created)

    async def _control(self, request: Addressed) -> Response | Close:
        try:
            return await self._loop.control(request)
        except RequestRefused as refused:
            return Close(str(refused))
