"""Configurations in ZooKeeper, read and altered for clients.

A client may ask a hundred times a second, so the same failure at the same znode is logged seldom (`AuditLog`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from lethe.adapters.security.audit import AuditLog
from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession
from lethe.broker.core.config_alteration import Read, paths_to_alter
from lethe.broker.core.config_queries import OwnSettings
from lethe.protocol.client_rows import RowRefused
from lethe.protocol.config_alteration import (
    MAX_ATTEMPTS,
    MAX_PATH_SHOWN,
    AlterationStep,
    Alterer,
    AlterRequest,
    after_write,
    all_failed,
    path_of,
    response_of,
    stored_config,
    to_read,
    to_write,
)
from lethe.protocol.counting import listed
from lethe.protocol.kafka.admin_configs import AlterableResource, AlterConfigsResponse, AlteredResource
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.zookeeper.operations import GetData, ReadOutcome
from lethe.protocol.zookeeper.packing import MultiPlan

logger = logging.getLogger(__name__)


class StoredConfigs:
    """The configurations, as far as the agent's session reaches them."""

    def __init__(self, session: Callable[[], ZooKeeperSession | None], own: OwnSettings) -> None:
        self._session = session
        self._own = own
        self._failures: Final = AuditLog(logger)

    async def read(self, paths: Sequence[str]) -> dict[str, Mapping[str, str] | None]:
        """Return the settings in each of these znodes, none where there is no znode; None: unreadable, see the log."""
        try:
            outcomes = await self._outcomes(paths)
        except SessionLost as lost:
            self._failures.note("reading", f"configurations cannot be read for clients: {lost}")
            return dict.fromkeys(paths)
        return {path: self._settings(path, outcome) for path, outcome in outcomes.items()}

    async def alter(
        self, request: AlterRequest, by: Callable[[Read], Alterer], *, client: object
    ) -> AlterConfigsResponse:
        """Return a row for each resource of the request. `by` returns the agent with what was read; `client` is for the
        log."""
        rows: list[AlteredResource] = []
        left = request.resources
        for attempt in range(1, MAX_ATTEMPTS + 1):
            found = to_read(request, left, by({}))
            rows += self._noted(found)
            if not found.left:
                break
            found = await self._to_write(request, found.left, by)
            rows += self._noted(found)
            if not found.groups:
                break
            found = await self._written(found, is_last=attempt == MAX_ATTEMPTS)
            rows += self._noted(found)
            _log_altered(request, found, client)
            left = found.left
        return response_of(request, rows)

    async def _to_write(
        self, request: AlterRequest, resources: Sequence[AlterableResource], by: Callable[[Read], Alterer]
    ) -> AlterationStep:
        try:
            read = await self._outcomes(paths_to_alter(resources, self._own))
        except SessionLost as lost:
            self._failures.note("reading to write", f"configurations are not altered for clients: {lost}")
            return all_failed(resources)
        return to_write(request, resources, (read[path_of(each.type, each.name)] for each in resources), by(read))

    async def _written(self, planned: AlterationStep, *, is_last: bool) -> AlterationStep:
        try:
            outcomes = await self._living().write(MultiPlan(planned.groups, None))
        except SessionLost as lost:
            self._failures.note("writing", f"whether configurations were altered for a client is unknown: {lost}")
            return all_failed(planned.left)
        return after_write(planned.left, outcomes, is_last=is_last)

    def _living(self) -> ZooKeeperSession:
        session = self._session()
        if session is None:
            raise SessionLost("there is no session at present")
        return session

    async def _outcomes(self, paths: Sequence[str]) -> dict[str, ReadOutcome]:
        outcomes = await self._living().read([GetData(path) for path in paths])
        return dict(zip(paths, outcomes, strict=True))

    def _settings(self, path: str, outcome: ReadOutcome) -> Mapping[str, str] | None:
        try:
            return stored_config(path, outcome)
        except RowRefused as unreadable:
            self._failures.note((path, str(unreadable)), f"a client cannot be shown a configuration: {unreadable}")
            return None

    def _noted(self, found: AlterationStep) -> Iterable[AlteredResource]:
        sentences = (
            ("the configuration of {} is not altered for a client: {}", found.faults),
            ("whether the configuration of {} was altered for a client is unknown: {}", found.unknown),
        )
        for sentence, resource, why in ((words, *each) for words, problems in sentences for each in problems):
            shown = str(resource.resource)[:MAX_PATH_SHOWN]
            self._failures.note((shown, why), sentence.format(shown, why))
        return found.rows


def _log_altered(request: AlterRequest, found: AlterationStep, client: object) -> None:
    """Write one line, however many resources the request has."""
    done = {(row.type, row.name) for row in found.rows if row.error == ErrorCode.NONE}
    altered = [
        f"{each.resource}: {', '.join(config.name for config in each.configs) or 'nothing is left'}"[:MAX_PATH_SHOWN]
        for each in request.resources
        if each.resource in done
    ]
    if altered:
        logger.info("%s altered the configuration of %s", client, listed(altered, 5, "; "))
