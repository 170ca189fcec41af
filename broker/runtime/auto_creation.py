"""Ask the controller to create topics that clients name in Metadata requests.

A client may ask a hundred times a second, so the same failure is logged seldom (`AuditLog`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from lethe.adapters.kafka.client import ClientError, ProtocolError
from lethe.adapters.kafka.missing_rights import REFUSALS, answer_words, grant_on_topic
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.security.audit import AuditLog
from lethe.broker.core.auto_creation import LEAST_VERSION, creation_errors, creation_request
from lethe.broker.runtime.controller_connection import ControllerConnection
from lethe.protocol.counting import listed
from lethe.protocol.kafka.admin import CreateTopicsResponse
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.security.acls import Operation
from lethe.protocol.vocabulary import BrokerId, Endpoint

logger = logging.getLogger(__name__)

TIMEOUT_MS: Final = 5_000
"""Limit for the turn, for connecting, and for the answer: a client waits meanwhile."""
_SHOWN: Final = 5


class AutoCreation:
    """Sends one request at a time. `close` at the end."""

    def __init__(self, broker_id: BrokerId, reach: BrokerReach, controller: Callable[[], Endpoint | None]) -> None:
        """`controller` returns the present controller's endpoint."""
        self._controller = controller
        self._connection = ControllerConnection(
            broker_id, reach, connect_timeout_ms=TIMEOUT_MS, request_timeout_ms=TIMEOUT_MS
        )
        self._principal: Final = reach.principal
        self._failures: Final = AuditLog(logger)
        self._one_at_a_time = asyncio.Lock()
        self._in_flight: dict[str, None] = {}

    async def create(self, topics: Sequence[str]) -> dict[str, int]:
        """Return what the client receives for each topic; one that is being created already is not asked for again.

        If its turn does not come within TIMEOUT_MS, the client asks again, as without an answer.
        """
        new = [name for name in topics if name not in self._in_flight]
        errors = creation_errors(topics, None)
        if not new:
            return errors
        self._in_flight |= dict.fromkeys(new)
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                await self._one_at_a_time.acquire()
            try:
                return errors | creation_errors(new, await self._ask(new))
            finally:
                self._one_at_a_time.release()
        except TimeoutError:
            return errors
        finally:
            for name in new:
                del self._in_flight[name]

    async def close(self) -> None:
        """Close the connection to the controller."""
        await self._connection.close()

    async def _ask(self, topics: Sequence[str]) -> CreateTopicsResponse | None:
        """Return the controller's answer; None, with the reason in the log, if there is none."""
        controller = self._controller()
        if controller is None:
            self._note(topics, "the metadata cache names no controller that could be asked")
            return None
        try:
            connection = await self._connection.to(controller)
            version = highest_common_version(ApiKey.CREATE_TOPICS, await connection.offered_versions())
            if version < LEAST_VERSION:
                self._note(topics, f"the controller is older than version {LEAST_VERSION} of CreateTopics")
                return None
            answer = await connection.request(creation_request(topics), version)
        except (ClientError, ProtocolError) as error:
            await self.close()
            self._note(topics, str(error))
            return None
        return await self._checked(topics, answer)

    async def _checked(self, topics: Sequence[str], answer: object) -> CreateTopicsResponse | None:
        if not isinstance(answer, CreateTopicsResponse):
            return None
        refused = [row for row in answer.topics if row.error in REFUSALS]
        for row in refused:
            remedy = grant_on_topic(Operation.CREATE, row.name)
            self._note([row.name], answer_words(row.error, self._principal, remedy))
        if len(refused) < len(topics):
            errors = list(dict.fromkeys(error_name(row.error) for row in answer.topics if row.error))
            logger.info(
                "the controller was asked to create %s: %s", listed(topics, _SHOWN), ", ".join(errors) or "done"
            )
        if any(row.error == ErrorCode.NOT_CONTROLLER for row in answer.topics):
            await self.close()
        return answer

    def _note(self, topics: Sequence[str], problem: str) -> None:
        self._failures.note(problem, f"{listed(topics, _SHOWN)}, named by a client, cannot be created now: {problem}")
