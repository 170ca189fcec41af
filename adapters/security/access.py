"""What clients of a listener may do: each request is checked as Kafka's brokers check it, and refusals are logged.

`protocol.security.rights` has the right that each request needs, `authorizer` the verdicts, `refusals` the answers. A
refusal is logged once for each principal and right, then seldom. Before the ACLs have been read, requests of other than
super users wait for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from typing import Final

from lethe.adapters.kafka.metadata import PROBE
from lethe.adapters.kafka.peers import Close, Handler
from lethe.adapters.peers import Peer
from lethe.adapters.security.acl_reader import AclReader
from lethe.adapters.security.audit import AuditLog
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.queries import MetadataRequest, Request, Response
from lethe.protocol.security.acls import WILDCARD, Operation, ResourceType
from lethe.protocol.security.authorizer import Acls, Action, Authorizer, Client, host_address, refusal
from lethe.protocol.security.forwarded_clients import hosts_matter
from lethe.protocol.security.principals import Principal
from lethe.protocol.security.refusals import filtered_response, refused_response
from lethe.protocol.security.rights import RIGHTS, Where, refused_action, refused_actions

_LOG: Final = logging.getLogger(__name__)
PATIENCE_S: Final = 10.0
"""How long a request waits for the first read of the ACLs; then it is refused."""
_MAX_SHOWN: Final = 250


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """The settings of Kafka's authorizer."""

    super_users: frozenset[Principal] = frozenset()
    allow_everyone_if_no_acl_found: bool = False


class AccessControl:
    """Decides for all listeners of a process."""

    def __init__(self, settings: AccessSettings, reader: AclReader, *, patience_s: float = PATIENCE_S) -> None:
        self.refused: Final = AuditLog(_LOG)
        """Requests that were refused, or in part."""
        self.refused_by_right: Final[Counter[tuple[Operation, ResourceType]]] = Counter(
            {(right.operation, right.resource_type): 0 for rights in RIGHTS.values() for right in rights}
        )
        """The same by the right that was missing."""
        self._settings = settings
        self.reader: Final = reader
        self._patience_s = patience_s
        self._looked_at: Acls | None = None
        self._hosts_matter = False

    def guarded(self, handler: Handler) -> Handler:
        """Return a handler that passes on only what the client may do."""

        async def handle(header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
            try:
                client = Client(peer.principal, host_address(peer.host))
            except ValueError:
                return Close("its address is not known, and ACLs may be about it")
            authorizer = await self._authorizer(client)
            action = refused_action(authorizer, client, request)
            if action is not None:
                self._note(client, action, header.api)
                return refused_response(request, action)
            answer = await handler(header, request, peer._replace(authorizer=authorizer))
            return answer if isinstance(answer, Close) else self._filtered(authorizer, client, header, request, answer)

        return handle

    def refuse_forwarding(self, peer: Peer, listener: str) -> str | None:
        """Return why requests of the client are not forwarded; None if a broker gives them the verdicts that it would
        give the client."""
        acls = self.reader.acls
        if acls is not self._looked_at:
            self._looked_at, self._hosts_matter = acls, hosts_matter(acls)
        if not self._hosts_matter:
            return None
        return (
            f"it sent a request for a broker to the listener {listener}; a broker would see this process's address "
            f"instead of {peer.host}, and some ACLs of {peer.principal} or everyone have a host; give these ACLs the "
            f"host *, or clients a listener that this process does not have"
        )

    async def _authorizer(self, client: Client) -> Authorizer:
        """Return the verdicts of this moment; wait for the first ones if they matter."""
        loaded, settings = self.reader.loaded, self._settings
        if not loaded.is_set() and client.principal not in settings.super_users:
            try:
                await asyncio.wait_for(loaded.wait(), self._patience_s)
            except TimeoutError:
                self.refused.note("unread", f"the ACLs were not read within {self._patience_s:g} s: all is refused")
        return Authorizer(self.reader.acls, settings.super_users, settings.allow_everyone_if_no_acl_found)

    def _filtered(
        self, authorizer: Authorizer, client: Client, header: RequestHeader, request: Request, answer: Response
    ) -> Response:
        of_request = refused_actions(authorizer, client, header.api, request, Where.EACH)
        of_request |= refused_actions(authorizer, client, header.api, answer, Where.CHANGE)
        of_answer = refused_actions(authorizer, client, header.api, answer, Where.ANSWER)
        refused = of_request | of_answer
        if not refused:
            return answer
        # As in Kafka, what is merely left out of a list is not logged.
        names_them = isinstance(request, MetadataRequest) and request.topics is not None
        noted = refused if names_them else of_request
        if noted:
            self._note(client, min(noted, key=lambda each: each.name), header.api)
        return filtered_response(request, answer, refused)

    def _note(self, client: Client, action: Action, api: ApiKey) -> None:
        if action.name == PROBE:
            action = action._replace(name=WILDCARD)  # the question was about all topics
        shown = action if len(action.name) <= _MAX_SHOWN else action._replace(name=f"{action.name[:_MAX_SHOWN]}…")
        kind = (client.principal, action.operation, action.resource_type)
        self.refused_by_right[action.operation, action.resource_type] += 1
        self.refused.note(kind, f"refused {api.name}: {refusal(client, shown)}")
