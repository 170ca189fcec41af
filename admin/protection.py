"""Which topics Lethe's controller protects, for commands that mark topics for deletion.

The controller refuses their markers anyway (`controller.core.protection`); a command says so before it writes one.
Kafka's controller obeys no patterns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_identity import acting_controller
from lethe.admin.controllers import ask_active_controller
from lethe.admin.refusal import Refusal
from lethe.survey.causes import protection_cause, sentence, unblock
from lethe.survey.evidence import ControllerReport, ProtectedTopics, protected_topics
from lethe.survey.examine import read_holds


async def read_protected(session: ZooKeeperSession) -> ProtectedTopics:
    """Return the patterns that the active controller protects, or that the next one of Lethe's finds in ZooKeeper.
    Those in the file of a controller that does not answer are not seen. Raises ZnodeUnreadable."""
    acting = await acting_controller(session)
    if acting.is_kafka:
        return ProtectedTopics(())
    told = ControllerReport(problem=acting.text)
    if acting.is_lethe:
        told = await ask_active_controller(session, None, at_most=0)
    return protected_topics(await read_holds(session, acting.broker_id), told)


async def demand_unprotected(session: ZooKeeperSession, names: Sequence[str]) -> None:
    """Raise Refusal if one of these topics is protected."""
    if not names:
        return
    protected = await read_protected(session)
    causes = ((name, protection_cause(name, protected)) for name in names)
    now_ms = time.time_ns() // 1_000_000
    said = [f"{sentence(cause, name, now_ms)}: {unblock(cause, name)}" for name, cause in causes if cause is not None]
    if said:
        raise Refusal("\n".join(said))
