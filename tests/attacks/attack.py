"""What an attack is, how it is tried, and what is said about it.

An attack has a positive control: the same request by the client that may do it, which has to work first. So a refusal
is not a daemon that refuses everything. The disks, ZooKeeper's tree and the agent's cache are compared before and after
the attempt, and the daemons have to serve afterwards.

    control failed, or the daemons do not serve afterwards     UNSEEN: nothing was proven
    the attempt got what it wanted, or something has changed   SUCCEEDED
    otherwise                                                  REFUSED
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from lethe.adapters.kafka.client import AuthenticationRefused, ClientError, ConnectionFailed, TlsFailed
from lethe.adapters.zookeeper.interface import SessionLost
from lethe.cluster.daemons import DaemonFailed
from lethe.protocol.kafka.control import LeaderAndIsrResponse, StopReplicaResponse
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.queries import Response
from tests.attacks.world import World, differences, until

FAULTS: Final = (AssertionError, ClientError, OSError, EOFError, SessionLost, DaemonFailed)
NOTHING: Final = "disks, znodes, cache"


class Verdict(enum.Enum):
    REFUSED = "refused"
    SUCCEEDED = "succeeded"
    UNSEEN = "unseen"


class Seen(NamedTuple):
    """What came of an attempt, in words that are the same in each run, and whether the attacker got what it wanted."""

    what: str
    succeeded: bool


Control = Callable[[World], Awaitable[str]]
"""Does what may be done, and returns what came of it. AssertionError and ClientError: it does not work."""
Attempt = Callable[[World], Awaitable[Seen]]


@dataclass(frozen=True)
class Attack:
    """One program."""

    subject: str
    """The attack's kind, which several have in common."""
    sent: str
    """What is sent, and by whom. No two are the same."""
    control: Control
    attempt: Attempt
    weakness: str | None = None
    """The key of `setting.WEAK` with which it has to succeed."""
    restarts: bool = False
    """The daemons are started again, so that registrations, terms and caches are new: only disks are compared."""


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    subject: str
    sent: str
    control: str
    happened: str
    unchanged: str
    verdict: str

    def document(self) -> dict[str, str]:
        return asdict(self)


async def tried(attack: Attack, world: World) -> Row:
    """Try the attack and return its row."""
    try:
        control = await attack.control(world)
    except FAULTS as error:
        return _row(attack, f"failed: {type(error).__name__}: {error}", "not tried", "", Verdict.UNSEEN)
    try:
        before = await world.settled()
        seen = await attack.attempt(world)
        if attack.restarts:
            await until(world.is_served, "the daemons serve again")
        else:
            assert await world.is_served(), "the daemons do not serve afterwards"
        changed = differences(before, await world.settled())
    except FAULTS as error:
        return _row(attack, control, f"failed: {type(error).__name__}: {error}", "", Verdict.UNSEEN)
    if attack.restarts:
        changed = [each for each in changed if each.startswith("file ")]
    verdict = Verdict.SUCCEEDED if seen.succeeded or changed else Verdict.REFUSED
    unchanged = f"changed: {', '.join(changed)}" if changed else "disks" if attack.restarts else NOTHING
    return _row(attack, control, seen.what, unchanged, verdict)


def _row(attack: Attack, control: str, happened: str, unchanged: str, verdict: Verdict) -> Row:
    return Row(attack.subject, attack.sent, control, happened, unchanged, verdict.value)


async def told(asking: Awaitable[Response]) -> tuple[str, Response | None]:
    """Return what a client is told, in words, and the answer if there is one."""
    try:
        answer = await asking
    except AuthenticationRefused:
        return "the login is refused", None
    except TlsFailed:
        return "the handshake of TLS fails", None
    except ConnectionFailed:
        return "the connection is closed without an answer", None
    return described(answer), answer


def described(answer: Response) -> str:
    """Return the errors of an answer, in words."""
    codes = [int(getattr(answer, "error", 0))]
    if isinstance(answer, StopReplicaResponse | LeaderAndIsrResponse):
        codes += [each.error for each in answer.rows]
    found = [f"error {code} {error_name(code)}" for code in dict.fromkeys(codes) if code != ErrorCode.NONE]
    return "; ".join(found) or "an answer without error"


def has_error(answer: Response | None) -> bool:
    """Whether there was no answer, or one with an error."""
    return answer is None or described(answer) != "an answer without error"
