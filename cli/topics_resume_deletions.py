"""`lethe topics resume-deletions`: ends the pause that `pause-deletions` began."""

from __future__ import annotations

from adapters import topic_admin
from adapters.deletion_admin import deletions_paused, resume_deletions
from adapters.zookeeper.interface import ZooKeeperSession
from cli.answer import Answer
from cli.options import AsJson, DryRun, ZooKeeper
from cli.running import finish
from cli.topics_pause_deletions import demand_done
from cli.zookeeper_access import with_session


def resume(zookeeper: ZooKeeper, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Resume the deletions that were paused: what is marked is deleted, what was begun goes on from where it stood."""
    finish(lambda: with_session(zookeeper, lambda session: resuming(session, dry_run=dry_run)), as_json=as_json)


async def resuming(session: ZooKeeperSession, *, dry_run: bool = False) -> Answer:
    """Ends the pause, or says which topics would be deleted then."""
    marked = (await topic_admin.list_topics(session)).marked
    before = await deletions_paused(session)
    if not dry_run:
        before, outcome = await resume_deletions(session)
        demand_done(outcome)
    if before is None:
        line = "Deletions are not paused."
    elif dry_run:
        line = f"Would resume deletions of {len(marked)} topics: {', '.join(marked[:20]) or 'none'}"
    else:
        line = f"Deletions go on: {len(marked)} topics are marked."
    return Answer(
        {"resumed": before is not None and not dry_run, "dry_run": dry_run, "marked": [*marked]},
        (line,),
    )
