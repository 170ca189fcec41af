"""Controlled shutdown: the agent asks the controller to move its leaderships before it stops.

As Kafka's brokers do: ControlledShutdown in the version of the inter-broker protocol, on a connection of its own and
without a handshake, to the controller that the metadata cache names, several times with a pause in between. The agent
stops when the answer is NONE and names no partition that it still leads. After the last try it stops anyway, and the
controller handles it as a failed broker. If the cache names no controller, it stops at once; Kafka's brokers spend all
their pauses then.

Meanwhile the agent serves requests: the controller moves the leaderships by requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

from lethe.adapters.kafka.client import ClientError, ProtocolError
from lethe.adapters.kafka.missing_rights import GRANT_COMMANDS, answer_words
from lethe.adapters.kafka.reach import BrokerReach
from lethe.broker.core.isr import controller_endpoint
from lethe.broker.core.state import AgentState
from lethe.broker.runtime.configuration import ControlledShutdownConfig
from lethe.broker.runtime.controller_connection import ControllerConnection
from lethe.protocol.counting import counted, listed
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControlledShutdownRequest, ControlledShutdownResponse
from lethe.protocol.kafka.versions import control_versions
from lethe.protocol.vocabulary import Endpoint

logger = logging.getLogger(__name__)

SOCKET_TIMEOUT_MS: Final = 30_000
"""Kafka's `controller.socket.timeout.ms`."""
SHOWN: Final = 5


async def leave_in_order(
    state: AgentState,
    config: ControlledShutdownConfig,
    reach: BrokerReach,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> bool:
    """Return whether the controller has accepted the shutdown."""
    connection = ControllerConnection(
        state.settings.broker_id, reach, connect_timeout_ms=SOCKET_TIMEOUT_MS, request_timeout_ms=SOCKET_TIMEOUT_MS
    )
    try:
        for attempt in range(1, config.max_retries + 1):
            controller = controller_endpoint(state)
            if controller is None and attempt == 1:
                logger.warning(
                    "no controller that could be asked is in the metadata cache, so that the agent leaves without a "
                    "controlled shutdown: what it leads has no leader until the controller has noticed"
                )
                return False
            if controller is None:
                problem: str | None = "the metadata cache names no controller that could be asked"
            else:
                problem = await _ask(connection, controller, state)
            if problem is None:
                logger.info("the controller has let this broker go")
                return True
            left = config.max_retries - attempt
            logger.warning("controlled shutdown: %s; %s left", problem, counted(left, "try is", "tries are"))
            if left:
                await pause(config.retry_backoff_ms / 1000)
    finally:
        await connection.close()
    logger.warning("the agent leaves although the controller has not let it go")
    return False


async def _ask(connection: ControllerConnection, controller: Endpoint, state: AgentState) -> str | None:
    """Return why the broker may not stop yet, as text to show; None if it may."""
    request = ControlledShutdownRequest(state.settings.broker_id, state.broker_epoch)
    version = control_versions(state.settings.inter_broker_protocol).controlled_shutdown
    try:
        opened = await connection.to(controller)
        answer = cast(ControlledShutdownResponse, await opened.request(request, version))
    except (ClientError, ProtocolError) as error:
        await connection.close()
        return str(error)
    if answer.error != ErrorCode.NONE:
        return f"the controller answered {answer_words(answer.error, opened.principal, GRANT_COMMANDS)}"
    if not answer.remaining:
        return None
    some = listed([f"{topic}-{partition}" for topic, partition in answer.remaining], SHOWN)
    return f"{counted(len(answer.remaining), 'partition has', 'partitions have')} no other leader yet: {some}"
