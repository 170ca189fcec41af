"""Probes brokers, all at once, each over its own connection.

Once one broker has answered, the others have a short time left: a registered broker whose process is gone must not
delay a failover by the whole limit. A refused connection is no answer.

    broker 1 answers after 40 ms, broker 2 after 300 ms, broker 3 never
    -> outcomes after 540 ms; broker 3: "no answer in time"
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from lethe.adapters.kafka.client import AuthenticationRefused, ClientError, TlsFailed
from lethe.adapters.security.handshakes import needs_a_setting
from lethe.controller.core.effects import ProbeBrokers, ProbeTarget
from lethe.controller.core.events import ProbeOutcome
from lethe.controller.runtime.brokers import MAX_PROBLEM_CHARS, Connect
from lethe.protocol.kafka.codec import EncodedBody, encode_control_body
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.versions import InterBrokerProtocol, control_versions
from lethe.protocol.vocabulary import NO_EPOCH

LIMIT_MS: Final = 3_000
"""For all probes, connecting included."""
AFTER_FIRST_MS: Final = 500
"""For the remaining probes, once a broker has answered."""
SECURE_LIMIT_MS: Final = 6_000
SECURE_AFTER_FIRST_MS: Final = 2_000
"""With TLS or SASL: a hundred handshakes and logins keep a processor busy for a second."""
NO_ANSWER: Final = "no answer in time"


class Prober:
    """Sends probes in the version that the inter-broker protocol selects for StopReplica."""

    def __init__(
        self, connect: Connect, ibp: InterBrokerProtocol, limit_ms: int = LIMIT_MS, after_first_ms: int = AFTER_FIRST_MS
    ) -> None:
        self._connect = connect
        self._version = control_versions(ibp).of(ApiKey.STOP_REPLICA)
        self._limit_ms = limit_ms
        self._after_first_ms = after_first_ms

    async def probe(self, effect: ProbeBrokers) -> tuple[ProbeOutcome, ...]:
        """Return one outcome per target, in order."""
        body = encode_control_body(effect.request, self._version)
        async with asyncio.TaskGroup() as tasks:
            probes = [
                tasks.create_task(self._one(target, body), name=f"probe-broker-{target.broker}")
                for target in effect.targets
            ]
            await self._wait(probes)
            for each in probes:
                each.cancel()
        return tuple(
            ProbeOutcome(target.broker, None, NO_ANSWER) if each.cancelled() else each.result()
            for target, each in zip(effect.targets, probes, strict=True)
        )

    async def _wait(self, probes: Sequence[asyncio.Task[ProbeOutcome]]) -> None:
        waiting = set(probes)
        answered = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limit_ms / 1000) as limit:
                while waiting:
                    done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                    if not answered and any(each.result().error is not None for each in done):
                        answered = True
                        soon_s = asyncio.get_running_loop().time() + self._after_first_ms / 1000
                        limit.reschedule(min(soon_s, limit.when() or soon_s))

    async def _one(self, target: ProbeTarget, body: EncodedBody) -> ProbeOutcome:
        try:
            wire = await self._connect(target.endpoint)
            try:
                answer = await wire.send_body(body, NO_EPOCH)
            finally:
                await wire.close()
        except (ClientError, ProtocolError) as error:
            return ProbeOutcome(target.broker, None, str(error)[:MAX_PROBLEM_CHARS], _has_no_access(error))
        return ProbeOutcome(target.broker, answer.error)


def _has_no_access(error: Exception) -> bool:
    if isinstance(error, TlsFailed):
        return needs_a_setting(error.__cause__)
    return isinstance(error, AuthenticationRefused)
