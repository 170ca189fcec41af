"""Finds names that are close to an unknown one, among topics, markers, configurations and leftovers."""

from __future__ import annotations

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.topic_names import close_names
from lethe.survey.brokers import AskAbout, QueryScope, ask_all
from lethe.survey.views import Survey
from lethe.survey.zookeeper import read_names


async def similar_names(session: ZooKeeperSession, name: str, seen: Survey, ask: AskAbout) -> tuple[str, ...]:
    """Return the closest names, at most three. Brokers are asked for all their topics only where ZooKeeper has no close
    name.

    `seen` is a survey of the name; it supplies the registered brokers.
    """
    if close := close_names(name, [each for names in await read_names(session) for each in names]):
        return close
    answers = await ask_all(seen.zookeeper.brokers, ask(QueryScope()))
    left = [topic for answer in answers for topic in answer.cache or ()]
    left += [
        directory.topic_partition.topic
        for answer in answers
        for view in answer.log_dirs or ()
        for directory in view.directories
        if directory.topic_partition is not None
    ]
    return close_names(name, left)
