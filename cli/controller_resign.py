"""`lethe controller-resign`: ends the active controller's term, so that another election takes place.

Deleting `/controller` is Kafka's supported way to move the controller. Its data version is 0 in every term, so the
deletion also checks the version of `/controller_epoch`, which differs in each term. If another controller was elected
meanwhile, nothing is deleted.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lethe.adapters.http_client import HttpCredentials
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_resignation import (
    POLL_MS,
    Resignation,
    resign,
)
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer
from lethe.cli.options import AsJson, ZooKeeper
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.controller.runtime.unconfirmed_deletions import as_json, left_words
from lethe.protocol.journal import JsonValue

TimeoutMs = Annotated[int, typer.Option("--timeout-ms", min=1, help="How long to wait for a successor.")]


GraceMs = Annotated[
    int,
    typer.Option(
        "--grace-ms",
        min=0,
        help="How long to wait first for brokers that have not confirmed that their metadata caches have dropped "
        "topics that are gone; only Lethe's controller reports them.",
    ),
]


def controller_resign(
    zookeeper: ZooKeeper, timeout_ms: TimeoutMs = 30_000, grace_ms: GraceMs = 5_000, as_json: AsJson = False
) -> None:
    """End the term of the active controller and say who comes after. Exit code 4 where nobody does in time, 1 where
    metadata caches of brokers may still show topics that are gone, 3 where Lethe's controller did not tell whether
    there are such brokers."""

    async def command() -> Answer:
        HttpCredentials.from_environment().check()
        return await with_session(
            zookeeper, lambda session: resignation(session, timeout_ms=timeout_ms, grace_ms=grace_ms)
        )

    finish(command, as_json=as_json)


async def resignation(
    session: ZooKeeperSession, *, timeout_ms: int, poll_ms: int = POLL_MS, grace_ms: int = 0
) -> Answer:
    """End the present term. Raises Refusal where there is none, or where it belongs to KRaft."""
    return _answer(await resign(session, timeout_ms=timeout_ms, poll_ms=poll_ms, grace_ms=grace_ms, say=note))


def _answer(resignation: Resignation) -> Answer:
    before, epoch, after, found = resignation
    if after is not None and after.stat.czxid == before.stat.czxid:
        after = None
    ended = before.znode.broker_id
    body: dict[str, JsonValue] = {
        "resigned": {"controller": ended, "epoch": epoch},
        "successor": None if after is None else after.znode.broker_id,
        "unconfirmed": as_json(found.under(after)) if found.unseen is None else None,
        "unseen": found.unseen,
    }
    line = f"Controller {ended} has resigned (epoch {epoch})."
    left = tuple(f"{words[0].upper()}{words[1:]}." for words in left_words(found.under(after)))
    if found.unseen is not None:
        left = (_unseen_words(found.unseen),)
    if after is None:
        return Answer(body, (line, "No controller has been elected yet.", *left), exit=Exit.TIMED_OUT)
    again = " again" if after.znode.broker_id == ended else ""
    lines = (line, f"Controller {after.znode.broker_id} was elected{again}.", *left)
    code = Exit.UNREACHABLE if found.unseen is not None else Exit.NO if left else Exit.OK
    return Answer(body, lines, exit=code)


def _unseen_words(why: str) -> str:
    return (
        "It is unknown whether brokers have confirmed that their metadata caches have dropped topics that are gone: "
        f"{why}. Look with lethe survey whether a broker still shows clients such topics; lethe rescue or a restart "
        "of the broker cures that."
    )
