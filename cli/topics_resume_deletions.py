"""`lethe topics resume-deletions`: ends the pause that `pause-deletions` began."""

from __future__ import annotations

import time

from lethe.adapters.http_client import HttpCredentials
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.deletion_requests import deletions_paused, resume_deletions
from lethe.admin.hold_causes import EVERY_TOPIC, held_back
from lethe.admin.outcomes import demand_done
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer
from lethe.cli.options import AsJson, DryRun, ZooKeeper
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import counted, listed
from lethe.survey.explain_json import cause_to_json


def resume(zookeeper: ZooKeeper, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Resume the deletions that were paused: what is marked is deleted, what was begun goes on from where it stood."""

    async def command() -> Answer:
        HttpCredentials.from_environment().check()
        return await with_session(zookeeper, lambda session: resuming(session, dry_run=dry_run))

    finish(command, as_json=as_json)


async def resuming(session: ZooKeeperSession, *, dry_run: bool = False) -> Answer:
    """End the pause, or say which topics would be deleted then; report what else holds them back."""
    marked = (await topic_znodes.list_topics(session)).marked
    before = await deletions_paused(session)
    if not dry_run:
        before, outcome = await resume_deletions(session)
        demand_done(outcome)
    held = await held_back(session)
    count = counted(len(marked), "topic is marked", "topics are marked")
    if before is None:
        line = "Deletions are not paused."
    elif dry_run:
        line = f"Would resume deletions; {count}: {listed(marked, 20) or 'none'}"
    else:
        line = f"{'Deletions continue' if held.is_deleting else 'The pause is ended'}: {count}."
    kafka: tuple[str, ...] = ()
    if held.acting.is_kafka:
        kafka = (f"Whether topics are deleted is not known: {held.acting.text}. Kafka's controller ignores the pause.",)
    now_ms = time.time_ns() // 1_000_000
    return Answer(
        {
            "resumed": before is not None and not dry_run,
            "dry_run": dry_run,
            "marked": [*marked],
            "held_back_by": [cause_to_json(cause, EVERY_TOPIC, now_ms) for cause in held.causes],
            "not_known": held.unasked,
            "deletions_continue": True if held.is_deleting else False if held.causes else None,
        },
        (line, *held.lines(), *kafka),
        exit=Exit.WAITS if held.causes else Exit.OK if held.unasked is None else Exit.UNREACHABLE,
    )
