"""Random journals of a small cluster: deletions as they go, with failovers, absent brokers, clocks that differ, names
that are used again, topics that somebody else removes or puts back, lines that are missing, and lines that say
nonsense."""

from __future__ import annotations

import json
import random
from typing import Final

from lethe.controller.core.deletion_memory import DELETING, DISABLED, NO_SUCH_TOPIC
from lethe.protocol.journal_trash import BACK, EXPIRED, GAVE_WAY, PURGED, RESTORED, TRASHED
from tests.pipeline.journals import ABSENT, START, Journal, Line

_HOLDS: Final = ("PAUSED", "REASSIGNMENT", "UNREADABLE")
_ERRORS: Final = ("KAFKA_STORAGE_ERROR", "STALE_BROKER_EPOCH", "the answer does not list the partition")
_RANGES: Final = ("0-1", "0", "1", "0,1", "0-2,4")
_STAYS: Final = (
    *((), (), (), (), (TRASHED,), (TRASHED, BACK, RESTORED), (TRASHED, EXPIRED), (TRASHED, PURGED)),
    *((TRASHED, RESTORED, TRASHED), (PURGED,), (TRASHED, GAVE_WAY, PURGED), (TRASHED, GAVE_WAY)),
)
_PAUSES: Final = ("deletions are paused", "deletions go on")
_REFUSALS: Final = (DISABLED, NO_SUCH_TOPIC)
_REFUSED: Final = (DELETING, DELETING, DELETING, "removing its deletion marker")
_NONSENSE: Final = ("0-999999999", "x", "", "3-1", "0--1", "99999999999", "0,,1")


class History:
    """One example: `name` begins its topics' names, its brokers are `first_broker` and the two after it."""

    def __init__(self, seed: int, name: str, first_broker: int) -> None:
        self.random = random.Random(seed)
        self.clock = random.Random(-seed)
        self.others = random.Random(f"debts {seed}")
        self.journal = Journal()
        self.name = name
        self.brokers = tuple(range(first_broker, first_broker + 3))
        self.has_ids = self.random.random() < 0.6
        self.writes_ids = self.random.random() < 0.6
        self.now = self.random.choice((0, 13 * 3_600_000 + 59 * 60_000 + 58_000))
        self.controller = 1001
        self.skew = {who: self.random.choice((0, 0, 40, -3000, 3000)) for who in (1001, 1002, *self.brokers)}

    def lines(self) -> list[Line]:
        """Some of the lines are missing, some are damaged, and they come in any order."""
        for topic in range(self.random.randint(1, 3)):
            for life in range(self.random.randint(1, 3)):
                self._deletion(f"{self.name}-{topic}", f"{self.name}-{topic}-{life}" if self.has_ids else None)
        self._tenures()
        lost = self.random.choice((0.0, 0.0, 0.1, 0.4))
        kept = [self._damaged(line) for line in self.journal.lines if self.random.random() >= lost]
        self.random.shuffle(kept)
        return kept

    # --- one deletion ---------------------------------------------------------------------------------------------

    def _deletion(self, topic: str, topic_id: str | None) -> None:
        for _ in range(self.random.choice((0, 0, 0, 1, 2))):
            self._held(topic, topic_id)
        for _ in range(self.random.choice((1, 1, 1, 2))):
            self._phase(topic, "queued", topic_id)
            self._phase(topic, "started", topic_id)
            for broker in self.brokers[: self.random.randint(1, 3)]:
                self._replicas(topic, topic_id, broker)
            if self.random.random() < 0.3:
                self.controller = 2003 - self.controller
        self._owed(topic, topic_id)
        self._trash(topic, topic_id)
        reached = self.random.choice((0, 2, 4, 4, 4, 4))
        for phase in ("tombstoned", "acknowledged", "removed", "done")[:reached]:
            self._phase(topic, phase, topic_id)
        if reached < 4 and self.random.random() < 0.5:
            self.random.choice((self._vanished, self._vanished, self._refused, self._unread))(topic, topic_id)
        if self.random.random() < 0.1:
            self._refused(topic, topic_id)
        for broker in self.brokers:
            for _ in range(self.random.choice((0, 1, 1, 2))):
                error = self.random.choice((None, None, None, "EIO"))
                at = self._later(70_000) + self.skew[broker]
                self.journal.freed(at, topic, broker, self._id(topic_id), error, self.random.randint(1, 3))

    def _owed(self, topic: str, topic_id: str | None) -> None:
        """Brokers that are away owe replicas when it ends, and settle later or never; the deletion may be called off,
        and ordered again."""
        topic_id, zxid = self._id(topic_id), self.others.randint(1, 2)
        for broker in self.others.sample(self.brokers, self.others.choice((0, 0, 0, 0, 1, 2))):
            for _ in range(self.others.choice((1, 1, 2))):
                self._debt(topic, "written", broker, zxid, topic_id)
            for what in self.others.choice(
                ((), ("paid",), ("void",), ("paid", "void"), ("written off",), ("paid", "paid"))
            ):
                agent = f"broker/{broker}" if what == "paid" and self.others.random() < 0.4 else None
                self._debt(topic, what, broker, zxid, topic_id, agent)

    def _debt(
        self, topic: str, what: str, broker: int, zxid: int, topic_id: str | None, agent: str | None = None
    ) -> None:
        at = self.now + self.others.choice((0, 500, 80_000, 40_000_000 if what != "written" else 0))
        said: dict[str, int | str | None] = {"partitions": self.others.choice((*_RANGES, *_NONSENSE[:2]))}
        said |= self.others.choice(
            ({}, {"size_bytes": 900}, {"owed_since_ms": START + self.now}, {"owed_since_ms": "x"})
        )
        said |= {} if topic_id == ABSENT else {"topic_id": topic_id}
        self.journal.debt(at, topic, what, broker, zxid, agent or f"controller/{self.controller}", **said)

    def _trash(self, topic: str, topic_id: str | None) -> None:
        for what in self.others.choice(_STAYS):
            self.journal.trash(self.now + self.others.randint(0, 9000), topic, what, topic_id, self.controller)

    def _held(self, topic: str, topic_id: str | None) -> None:
        for _ in range(self.random.randint(1, 3)):
            why = self.random.choice(_HOLDS)
            self._phase(topic, "held", None if why == "UNREADABLE" else topic_id, held_by=why)
        chance = self.random.random()
        if chance < 0.3:
            if chance < 0.1:
                at = self.now + self.skew[self.controller]
                self.journal.refused(at, topic, DISABLED, self.controller)
            self._phase(topic, "let go", topic_id)
        elif chance < 0.4:
            self._vanished(topic, topic_id)

    def _vanished(self, topic: str, topic_id: str | None) -> None:
        """A later controller may have found a znode that it could not read, and so no id."""
        is_unreadable = self.random.random() < 0.3
        if is_unreadable:
            self.controller = 2003 - self.controller
            self._phase(topic, "held", None, held_by="UNREADABLE")
        self._phase(topic, "vanished", None if is_unreadable else topic_id)

    def _refused(self, topic: str, _: str | None) -> None:
        """A later controller, as a rule, looks at the mark and does not want to."""
        if self.random.random() < 0.8:
            self.controller = 2003 - self.controller
        why = self.random.choice((*_REFUSALS, "of something else"))
        self.journal.refused(self._at(), topic, why, self.controller, self.random.choice(_REFUSED))

    def _unread(self, topic: str, _: str | None) -> None:
        """A later controller cannot read the topic's znode; a person has it deleted as it is, or unmarks it."""
        self.controller = 2003 - self.controller
        self._phase(topic, "held", None, held_by="UNREADABLE")
        ended = self.random.choice((("let go",), ("queued", "started", "removed", "done"), ("queued", "done")))
        for phase in ended:
            self._phase(topic, phase, None)

    def _replicas(self, topic: str, topic_id: str | None, broker: int) -> None:
        ranges = self.random.choice(_RANGES)
        for _ in range(self.random.choice((1, 1, 2))):
            if self.random.random() < 0.7:
                self._moved(topic, topic_id, broker, "DELETION_STARTED", ranges)
            match self.random.choice(("fine", "fine", "fine", "refused", "gone", "silent")):
                case "fine":
                    self._moved(topic, topic_id, broker, "DELETION_SUCCESSFUL", ranges)
                    self._answered(topic, topic_id, broker, "NONE", ranges)
                case "refused":
                    self._answered(topic, topic_id, broker, self.random.choice(_ERRORS), ranges)
                    self._moved(topic, topic_id, broker, "DELETION_INELIGIBLE", ranges)
                case "gone":
                    what = self.random.choice(("failed", "started", "log directory failed", "modified"))
                    self.journal.broker(self._at(), broker, what)
                    self._moved(topic, topic_id, broker, "DELETION_INELIGIBLE", ranges)
                    if self.random.random() < 0.5:
                        self.journal.broker(self._at(), broker, "started")
                        self._moved(topic, topic_id, broker, "DELETION_STARTED", ranges)
                case _:
                    self._moved(topic, topic_id, broker, "OFFLINE", ranges)

    # --- lines ----------------------------------------------------------------------------------------------------

    def _later(self, most: int = 2000) -> int:
        self.now += self.random.choice((0, 1, self.random.randint(0, most)))
        return self.now

    def _at(self) -> int:
        return self._later() + self.skew[self.controller]

    def _id(self, topic_id: str | None) -> str | None:
        return topic_id if self.writes_ids else ABSENT

    def _phase(self, topic: str, phase: str, topic_id: str | None, **data: str | int) -> None:
        at = self._at()
        if phase in ("held", "queued"):
            # Earlier releases do not say when the marker was made; ZooKeeper's clock may be ahead.
            said = self.clock.choice((None, None, START + at - 90_000, START + at - 5, START + at + 4000, "soon"))
            data |= {} if said is None else {"marked_at_ms": said}
        self.journal.phase(at, topic, phase, topic_id, self.controller, **data)

    def _moved(self, topic: str, topic_id: str | None, broker: int, after: str, ranges: str) -> None:
        form = self.random.choice(("one", "one", "older", "range", "list"))
        brokers = {"range": f"{broker}-{broker + 1}", "list": f"{broker},{broker + 2}"}.get(form, broker)
        self.journal.moved(self._at(), topic, brokers, after, ranges, self._id(topic_id), older=form == "older")

    def _answered(self, topic: str, topic_id: str | None, broker: int, result: str, ranges: str) -> None:
        self.journal.answered(self._at(), topic, broker, result, ranges, self._id(topic_id), self.controller)

    def _tenures(self) -> None:
        """Controllers' ids are of the example, so that its terms are."""
        first = self.brokers[0] * 10
        at = 0
        for epoch in range(1, self.random.randint(1, 5)):
            controller = first + self.random.randint(0, 1)
            at += self.random.randint(0, 100_000)
            self.journal.election(at, controller, "elected", epoch, version=1)
            if self.random.random() < 0.8:
                self.journal.election(at + 30, controller, "active", epoch, loading_ms=30)
            for what in self.random.choice(((), (), _PAUSES[:1], _PAUSES, (*_PAUSES, _PAUSES[0]))):
                at += self.random.choice((0, 20, 1000))
                self.journal.pause(at, controller, what)
            if self.random.random() < 0.6:
                self.journal.election(at + 900, controller, "resigned", epoch, reason="SIGTERM", tenure_ms=900)

    def _damaged(self, line: Line) -> Line:
        if self.random.random() > 0.04:
            return line
        said = json.loads(line.data)
        match self.random.randrange(5):
            case 0:
                said.pop(self.random.choice(list(said)))
            case 1 if "replicas" in said:
                nonsense = self.random.choice(_NONSENSE)
                said["replicas"] = self.random.choice(({"1": nonsense}, {nonsense: "0"}, {"1": None}, [1], None))
            case 1 if line.type in ("ack", "transition"):
                said["partitions"] = self.random.choice(_NONSENSE)
            case 2 if line.type in ("ack", "transition"):
                said["broker"] = self.random.choice((None, "x", -1))
            case 3:
                said["unknown"] = {"nested": [1, 2]}
            case _ if line.type == "deletion-phase":
                said["phase"] = self.random.choice(("pondered", None))
            case _:
                pass
        return line._replace(data=json.dumps(said))
