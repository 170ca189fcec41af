"""What is configured while the cluster runs, and what a controller can know of it.

A controller reads the configuration when it takes over and when a notification tells it to. So it may act on what was
so for as long as nobody has announced that it has changed, and for as long as the announcement is on its way. Every
answer to a read is looked at when the controller takes it in: what a process has *read* is what it may act on, and
with nothing left to happen it must have read what is written there, if that was announced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lethe.protocol.kafka.config_values import parse_thousandths
from lethe.protocol.own_settings import TOPICS_PER_SECOND
from lethe.protocol.topic_globs import PROTECTED_TOPICS, parse_globs, protecting_glob
from lethe.protocol.vocabulary import INTERNAL_TOPICS, BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Create,
    Data,
    GetData,
    Operation,
    Read,
    ReadFailed,
    ReadOutcome,
    SetData,
    ZkError,
)

UNCLEAN = "unclean.leader.election.enable"
DELETION = "delete.topic.enable"
OF_ALL = f"brokers/{paths.DEFAULT_ENTITY}"


class Settings(NamedTuple):
    """The two switches as they stand, and the patterns of protected topics."""

    deletion: bool
    unclean: bool
    protected: tuple[str, ...] = ()
    topics_per_s: int = 0
    """Deletions that may begin, in thousandths; 0: any number."""


class Said(NamedTuple):
    """What the configuration says of these; None: nothing. `unclear` where it cannot be understood."""

    deletion: bool | None = None
    unclean: bool | None = None
    unclear: tuple[str, ...] = ()
    protected: tuple[str, ...] | None = None
    topics_per_s: int | None = None

    @property
    def deletion_is_unclear(self) -> bool:
        """It does not say whether topics may be deleted."""
        return DELETION in self.unclear or PROTECTED_TOPICS in self.unclear


class Knowledge(NamedTuple):
    """What one process was started with, and what it has read since."""

    started_with: Settings
    epoch: int = 0
    """Of the term in which it has read what follows."""
    has_read: bool = False
    said: Said = Said()
    """Of what is unclear, what was said before."""
    unclean_topics: tuple[tuple[str, bool | None], ...] = ()
    """What the configuration of a topic said when it was last read; None: nothing."""

    @property
    def now(self) -> Settings:
        """What it has to go by."""
        return in_force(self.started_with, self.said)

    def may_delete(self, name: str) -> bool:
        """It knows that this topic may be deleted."""
        is_clear = not self.said.deletion_is_unclear
        return is_clear and self.now.deletion and protecting_glob(name, self.now.protected) is None

    def may_refuse(self, name: str) -> bool:
        """It knows that this topic may not be deleted; an internal one never."""
        if name in INTERNAL_TOPICS:
            return True
        return not self.said.deletion_is_unclear and not self.may_delete(name)

    def allows_unclean(self, name: str) -> bool:
        """A leader of this topic may lack records, after the topic's configuration was read."""
        said = dict(self.unclean_topics).get(name, False)
        return self.now.unclean if said is None else said

    def having_read(
        self, me: BrokerId, epoch: int, reads: Sequence[Read], outcomes: Sequence[ReadOutcome]
    ) -> Knowledge:
        """With what these answers say. What is unclear leaves things as they are; in a new term nobody knows how."""
        answers = {r.path: o for r, o in zip(reads, outcomes, strict=True) if isinstance(r, GetData)}
        knowledge = self if epoch == self.epoch else Knowledge(self.started_with, epoch)
        of_all = answers.get(paths.config_broker_default())
        if of_all is not None:
            said = says(of_all, answers[paths.config_broker(me)])
            said = _taken_in(knowledge.said, said, is_first=not knowledge.has_read)
            knowledge = knowledge._replace(has_read=True, said=said)
        topics = dict(knowledge.unclean_topics)
        for path, outcome in answers.items():
            name = paths.child_of(paths.config_topics(), path)
            config = _config(path, outcome)
            if name is not None:
                topics[name] = False if config is None else _yes_or_no(config.get(UNCLEAN), otherwise=False)
        return knowledge._replace(unclean_topics=tuple(topics.items()))


def _taken_in(before: Said, said: Said, *, is_first: bool) -> Said:
    """What stays unclear is what has been so since the term began."""
    return Said(
        before.deletion if DELETION in said.unclear else said.deletion,
        before.unclean if UNCLEAN in said.unclear else said.unclean,
        tuple(key for key in said.unclear if is_first or before.deletion_is_unclear or key in before.unclear),
        before.protected if PROTECTED_TOPICS in said.unclear else said.protected,
        before.topics_per_s if TOPICS_PER_SECOND in said.unclear else said.topics_per_s,
    )


def says(of_all: ReadOutcome, own: ReadOutcome) -> Said:
    """A controller's own entry comes before that of all brokers."""
    configs = (
        _config(paths.config_broker_default(), of_all),
        _config(paths.parent_of(paths.config_broker_default()), own),
    )
    if configs[0] is None or configs[1] is None:
        return Said(unclear=(DELETION, UNCLEAN, PROTECTED_TOPICS, TOPICS_PER_SECOND))
    merged = configs[0] | configs[1]
    unclear = tuple(key for key in (DELETION, UNCLEAN) if merged.get(key) not in (None, "true", "false"))
    deletion, unclean = (_yes_or_no(merged.get(key), otherwise=None) for key in (DELETION, UNCLEAN))
    rate = None if (text := merged.get(TOPICS_PER_SECOND)) is None else parse_thousandths(text)
    if text is not None and rate is None:
        unclear = (*unclear, TOPICS_PER_SECOND)
    patterns = None if (text := merged.get(PROTECTED_TOPICS)) is None else parse_globs(text)
    if isinstance(patterns, str):
        return Said(deletion, unclean, (*unclear, PROTECTED_TOPICS), None, rate)
    return Said(deletion, unclean, unclear, patterns, rate)


def in_force(started_with: Settings, said: Said) -> Settings:
    """What was said, or else what the process was started with."""
    deletion, unclean = said.deletion, said.unclean
    return Settings(
        started_with.deletion if deletion is None else deletion,
        started_with.unclean if unclean is None else unclean,
        started_with.protected if said.protected is None else said.protected,
        started_with.topics_per_s if said.topics_per_s is None else said.topics_per_s,
    )


def _config(path: str, outcome: ReadOutcome) -> dict[str, str] | None:
    if isinstance(outcome, Data):
        try:
            return znodes.decode_config(path, outcome.data)
        except znodes.MalformedZnode:
            return None
    return {} if isinstance(outcome, ReadFailed) and outcome.error is ZkError.NO_NODE else None


def _yes_or_no(value: str | None, *, otherwise: bool | None) -> bool | None:
    return None if value is None else {"true": True, "false": False}.get(value, otherwise)


class Announcements:
    """Which configurations have been changed and not been announced. Kept by looking at each write."""

    def __init__(self) -> None:
        self.owed: dict[str, None] = {}

    def book(self, operation: Operation) -> None:
        """Take note of one operation."""
        path = operation.path
        if path.startswith(f"{paths.CONFIG_CHANGES}/"):
            if isinstance(operation, Create):
                self.owed.pop(znodes.decode_config_change(path, operation.data).entity_path, None)
        elif path.startswith("/config/brokers/") or (
            paths.child_of(paths.config_topics(), path) is not None and isinstance(operation, SetData)
        ):
            self.owed[path.removeprefix("/config/")] = None
