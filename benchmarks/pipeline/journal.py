"""Journals as a busy cluster would have written them: one day after the other, each made from the seed alone.

A day has three controllers, of which one leads until it is killed in the middle of the day and another one takes over,
and six agents. Topics are created and deleted in groups, with the lines that real journals have for that, in the same
order and proportions (see `docs/benchmarks.md`): transitions are a third of all lines, freed directories an
eighth. Some deletions are interrupted by the failover, some wait for a broker, some marks are taken back; two a day
never end, and another process removes the topics of two a day.

What real files have as well: they are rotated; one line in a thousand stands in them twice; the last line of the
controller that is killed is cut off; some lines are no lines of a journal. And each day breaks a few rules of the audit
once. Days do not depend on each other, so that they are written by several processes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.pipeline.journal_writer import JournalWriter
from benchmarks.pipeline.planted import Planted

DAY_MS: Final = 86_400_000
FIRST_DAY_MS: Final = 1_767_225_600_000
"""2026-01-01 UTC."""
BROKERS: Final = (1, 2, 3, 4, 5, 6)
CONTROLLERS: Final = (1001, 1002, 1003)
GROUP: Final = 25
"""Topics that are deleted together."""
LINES_PER_TOPIC: Final = 30
"""About; for the distance in time between groups."""
DIRECTORY_BYTES: Final = 16_435


class Topic(NamedTuple):
    name: str
    id: str
    partitions: int
    brokers: tuple[int, int]

    @property
    def ranges(self) -> str:
        return "0" if self.partitions == 1 else f"0-{self.partitions - 1}"

    @property
    def replicas(self) -> int:
        return 2 * self.partitions


class DayJournal:
    """The event records of one day."""

    def __init__(self, directory: Path, number: int, seed: int, *, is_last: bool) -> None:
        self.planted = Planted()
        self._seed = seed
        self._number = number
        self._is_last = is_last
        self._start_ms = FIRST_DAY_MS + number * DAY_MS
        self._topics = 0
        first = 100 * number + 1
        make = partial(JournalWriter, directory, first_file=first, planted=self.planted)
        old, new = (CONTROLLERS[(2 * number + each) % len(CONTROLLERS)] for each in (0, 1))
        self._old = make("controller", old, started_ms=self._start_ms)
        self._new = make("controller", new, started_ms=self._start_ms + 1)
        self._agents = {each: make("broker", each, started_ms=self._start_ms + 2) for each in BROKERS}
        self._requests = 0

    def write(self, lines: int) -> Planted:
        """About so many lines."""
        groups = max(4, lines // (LINES_PER_TOPIC * GROUP))
        step_ms = (DAY_MS - 600_000) // groups
        self._elect(self._old, self._start_ms + 10, 2 * self._number + 1)
        failover = groups // 2
        for group in range(groups):
            at_ms = self._start_ms + 60_000 + group * step_ms
            leader = self._old if group < failover else self._new
            topics = self._make(GROUP)
            self._create(leader, at_ms, topics)
            if group == failover - 1:
                self._interrupted(at_ms + 2_000, topics)
                leader = self._new
            elif group % 10 == 5:
                self._delayed(leader, at_ms + 2_000, topics)
            else:
                self._plain(leader, at_ms + 2_000, topics)
            if group % 20 == 7:
                self._taken_back(leader, at_ms + 30_000)
            if group % 40 == 3:
                leader.spoil(f"\x00\x00 nothing that anybody wrote, {self._number}-{group}")
        end_ms = self._start_ms + DAY_MS - 120_000
        self._never_ending(end_ms)
        self._plant(end_ms + 1_000)
        self._vanishing(end_ms + 10_000)
        epoch = 2 * self._number + 2
        reason = f'{{"what":"resigned","epoch":{epoch},"reason":"received SIGTERM","tenure_ms":{DAY_MS // 2}}}'
        self._new.about_itself(end_ms + 60_000, "election", reason)
        for writer in (self._old, self._new, *self._agents.values()):
            writer.close()
        return self.planted

    # --- topics -----------------------------------------------------------------------------------------------------

    def _make(self, count: int) -> list[Topic]:
        made = []
        for _ in range(count):
            self._topics += 1
            digest = hashlib.blake2b(f"{self._seed}/{self._number}/{self._topics}".encode(), digest_size=16).digest()
            identity = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            first = digest[0] % len(BROKERS)
            brokers = (BROKERS[first], BROKERS[(first + 1 + digest[1] % 5) % len(BROKERS)])
            name = f"events-{self._number:04d}-{self._topics:06d}"
            made.append(Topic(name, identity, 1 + digest[2] % 4, brokers))
        return made

    def _moved(
        self,
        writer: JournalWriter,
        ms: int,
        topic: Topic,
        before: str,
        after: str,
        brokers: Sequence[int] | None = None,
    ) -> None:
        """Of the replicas on these brokers, all of the topic's where None; see `_partitions_moved`."""
        for broker in topic.brokers if brokers is None else brokers:
            data = (
                f'{{"machine":"replica","broker":{broker},"partitions":"{topic.ranges}","before":"{before}",'
                f'"after":"{after}","topic_id":"{topic.id}"}}'
            )
            writer.say(ms, "transition", f"topic/{topic.name}", data)

    def _partitions_moved(self, writer: JournalWriter, ms: int, topic: Topic, before: str, after: str) -> None:
        data = (
            f'{{"machine":"partition","partitions":"{topic.ranges}","before":"{before}","after":"{after}",'
            f'"topic_id":"{topic.id}"}}'
        )
        writer.say(ms, "transition", f"topic/{topic.name}", data)

    def _phase(
        self, writer: JournalWriter, ms: int, topic: Topic, phase: str, took_ms: int = 0, more: str = ""
    ) -> None:
        data = (
            f'{{"phase":"{phase}","took_ms":{took_ms},"topic_id":"{topic.id}","partitions":{topic.partitions},'
            f'"replicas":{topic.replicas}{more}}}'
        )
        writer.say(ms, "deletion-phase", f"topic/{topic.name}", data)

    # --- what happens -----------------------------------------------------------------------------------------------

    def _elect(self, writer: JournalWriter, ms: int, epoch: int) -> None:
        writer.about_itself(ms, "event", '{"event":"process started","outcome":"handled","process_id":1}')
        writer.about_itself(ms + 1, "election", f'{{"what":"elected","epoch":{epoch},"version":{epoch}}}')
        active = (
            f'{{"what":"active","epoch":{epoch},"brokers":6,"topics":0,"partitions":0,"deletions":0,"loading_ms":20}}'
        )
        writer.about_itself(ms + 21, "election", active)
        self._epoch = epoch
        self.planted.tenures += 1

    def _create(self, leader: JournalWriter, ms: int, topics: Sequence[Topic]) -> None:
        for topic in topics:
            self._partitions_moved(leader, ms, topic, "NON_EXISTENT", "NEW")
            self._moved(leader, ms, topic, "NON_EXISTENT", "NEW")
        for topic in topics:
            self._partitions_moved(leader, ms + 5, topic, "NEW", "ONLINE")
            self._moved(leader, ms + 5, topic, "NEW", "ONLINE")
        self._asked(leader, ms + 6, "LEADER_AND_ISR", len(topics))
        self._handled(leader, ms + 7, "TopicsChanged")

    def _begin(self, leader: JournalWriter, ms: int, topics: Sequence[Topic]) -> None:
        for topic in topics:
            self._phase(leader, ms, topic, "queued")
        for topic in topics:
            self._partitions_moved(leader, ms + 1, topic, "ONLINE", "OFFLINE")
            self._partitions_moved(leader, ms + 1, topic, "OFFLINE", "NON_EXISTENT")
            self._phase(leader, ms + 1, topic, "started", 1)
        self._asked(leader, ms + 2, "UPDATE_METADATA", len(topics))
        for topic in topics:
            self._moved(leader, ms + 2, topic, "ONLINE", "OFFLINE")
            self._moved(leader, ms + 2, topic, "OFFLINE", "DELETION_STARTED")
        self._asked(leader, ms + 3, "STOP_REPLICA", len(topics))
        self._handled(leader, ms + 3, "TopicDeletionsRequested")

    def _answer(self, leader: JournalWriter, ms: int, topics: Sequence[Topic], brokers: Sequence[int]) -> None:
        """The agents say that they have deleted, and the leader counts it."""
        for topic in topics:
            for broker in topic.brokers:
                if broker in brokers:
                    said = (
                        f'{{"broker":{broker},"controller_epoch":{self._epoch},"delete":true,'
                        f'"partitions":"{topic.ranges}","error":"NONE","topic_id":"{topic.id}"}}'
                    )
                    self._agents[broker].say(ms, "ack", f"topic/{topic.name}", said)
                    self._moved(leader, ms + 3, topic, "DELETION_STARTED", "DELETION_SUCCESSFUL", (broker,))
                    counted = (
                        f'{{"broker":{broker},"broker_epoch":24,"request_id":{self._requests},'
                        f'"partitions":"{topic.ranges}","result":"NONE","topic_id":"{topic.id}"}}'
                    )
                    leader.say(ms + 3, "ack", f"topic/{topic.name}", counted)
        for _ in brokers:
            self._handled(leader, ms + 4, "StopReplicaResponseReceived")

    def _end(self, leader: JournalWriter, ms: int, topics: Sequence[Topic], since_ms: int) -> None:
        for phase in ("tombstoned", "acknowledged"):
            for topic in topics:
                self._phase(leader, ms, topic, phase, ms - since_ms)
        operations = '{"Delete":9}'
        data = f'"operations":{operations},"first_path":"/brokers/topics/{topics[0].name}"'
        leader.about_itself(
            ms + 8,
            "znode-write",
            f'{{"groups":{len(topics)},{data},"outcomes":{{"done":{len(topics)}}},"fenced":true,"took_ms":6.25}}',
        )
        for topic in topics:
            self._phase(leader, ms + 9, topic, "removed", 9)
            self._phase(leader, ms + 9, topic, "done", ms + 9 - since_ms)
        self.planted.done += len(topics)
        self.planted.replicas += sum(topic.replicas for topic in topics)
        self.planted.acked += sum(topic.replicas for topic in topics)

    def _free(self, ms: int, topics: Sequence[Topic]) -> None:
        """Each broker's two log directories: the even partitions lie in the one, the odd in the other."""
        for topic in topics:
            for broker in topic.brokers:
                for log_dir in (0, 1):
                    numbers = range(log_dir, topic.partitions, 2)
                    if not numbers:
                        continue
                    size = DIRECTORY_BYTES * len(numbers)
                    ranges = ",".join(map(str, numbers))
                    said = (
                        f'{{"log_dir":"/data/{broker}/logs-{log_dir}","topic":"{topic.name}",'
                        f'"partitions":"{ranges}","directories":{len(numbers)},"size_bytes":{size},'
                        f'"files":{14 * len(numbers)},"error":null,"topic_id":"{topic.id}"}}'
                    )
                    self._agents[broker].about_itself(ms, "bytes-freed", said)
                    self.planted.freed_directories += len(numbers)
                    self.planted.freed_bytes += size

    def _plain(self, leader: JournalWriter, ms: int, topics: Sequence[Topic]) -> None:
        self._begin(leader, ms, topics)
        self._answer(leader, ms + 20, topics, BROKERS)
        self._end(leader, ms + 50, topics, ms)
        self._free(ms + 5_000, topics)

    def _delayed(self, leader: JournalWriter, ms: int, topics: Sequence[Topic]) -> None:
        """A broker fails and comes back."""
        absent = topics[0].brokers[0]
        mine = [topic for topic in topics if absent in topic.brokers]
        self._begin(leader, ms, topics)
        self._answer(leader, ms + 20, topics, [broker for broker in BROKERS if broker != absent])
        leader.say(ms + 6_000, "broker", f"broker/{absent}", '{"what":"failed","broker_epoch":24}')
        for topic in mine:
            self._moved(leader, ms + 6_001, topic, "DELETION_STARTED", "DELETION_INELIGIBLE", (absent,))
        leader.say(ms + 20_000, "broker", f"broker/{absent}", '{"what":"started","broker_epoch":24}')
        for topic in mine:
            self._moved(leader, ms + 20_001, topic, "DELETION_INELIGIBLE", "OFFLINE", (absent,))
            self._moved(leader, ms + 20_001, topic, "OFFLINE", "DELETION_STARTED", (absent,))
        self._asked(leader, ms + 20_002, "STOP_REPLICA", len(mine))
        self._answer(leader, ms + 20_020, mine, (absent,))
        self._end(leader, ms + 20_050, topics, ms)
        self._free(ms + 25_000, topics)

    def _interrupted(self, ms: int, topics: Sequence[Topic]) -> None:
        """The leader is killed when half of the brokers have answered; the next one begins these deletions anew."""
        self._begin(self._old, ms, topics)
        self._answer(self._old, ms + 20, topics, BROKERS[:3])
        self._handled(self._old, ms + 30, "StopReplicaResponseReceived")
        self._old.cut_off()
        self._elect(self._new, ms + 6_000, 2 * self._number + 2)
        self._begin(self._new, ms + 6_050, topics)
        self._answer(self._new, ms + 6_070, topics, BROKERS)
        self._end(self._new, ms + 6_100, topics, ms)
        self._free(ms + 11_000, topics)

    def _taken_back(self, leader: JournalWriter, ms: int) -> None:
        (topic,) = self._make(1)
        self._phase(leader, ms, topic, "held", more=',"held_by":"PAUSED"')
        self._phase(leader, ms + 9_000, topic, "let go", 9_000)
        self.planted.let_go += 1

    def _never_ending(self, ms: int) -> None:
        topics = self._make(2)
        self._create(self._new, ms - 5_000, topics)
        self._begin(self._new, ms, topics)
        self.planted.open += len(topics)
        self.planted.replicas += sum(topic.replicas for topic in topics)
        if not self._is_last:
            # The next day's controllers say nothing of them.
            self.planted.violations["some-outcome"] += len(topics)

    def _vanishing(self, ms: int) -> None:
        topics = self._make(2)
        self._create(self._new, ms, topics)
        self._begin(self._new, ms + 1_000, topics)
        for topic in topics:
            self._phase(self._new, ms + 4_000, topic, "vanished", 3_000)
        self.planted.vanished += len(topics)
        self.planted.replicas += sum(topic.replicas for topic in topics)

    # --- the rest ---------------------------------------------------------------------------------------------------

    def _asked(self, leader: JournalWriter, ms: int, api: str, topics: int) -> None:
        for broker in BROKERS:
            self._requests += 1
            counts = f'"topics":{topics},"partitions":{2 * topics}'
            sent = f'{{"api":"{api}","broker_epoch":24,"request_id":{self._requests},{counts}}}'
            leader.say(ms, "request", f"broker/{broker}", sent)
            of = f'"controller":{leader.number},"controller_epoch":{self._epoch}'
            got = f'{{"api":"{api}",{of},{counts},"answers":{{"NONE":{2 * topics}}}}}'
            self._agents[broker].about_itself(ms + 1, "request", got)

    def _handled(self, leader: JournalWriter, ms: int, event: str) -> None:
        leader.about_itself(
            ms, "event", f'{{"event":"{event}","outcome":"handled","queued_ms":0.031,"handled_ms":1.5}}'
        )

    def _plant(self, ms: int) -> None:
        """Each of these breaks one rule once."""
        (topic,) = self._make(1)
        broken = self.planted.violations
        self._moved(self._new, ms, topic, "ONLINE", "DELETION_STARTED", (1,))
        broken["legal-transition"] += 1
        data = '{"machine":"replica","broker":1,"partitions":"0-99999999","before":"ONLINE","after":"OFFLINE"}'
        self._new.say(ms, "transition", f"topic/{topic.name}", data)
        broken["sane-partitions"] += 1
        agent = self._agents[3]
        agent.seq += 7
        agent.about_itself(ms, "broker", '{"happened":"registered"}')
        broken["no-line-lost"] += 1
        agent.about_itself(ms + 1, "broker", '{"has_happened":"nothing that the schema knows"}')
        broken["known-form"] += 1
        lost = '"first":"2026-01-01T00:00:00.000Z","last":"2026-01-01T00:00:00.000Z"'
        self._agents[4].about_itself(ms, "gap", f'{{"count":5,{lost},"reason":"disk full"}}')
        broken["no-gap"] += 1


def write_journal(directory: Path, lines: int, *, lines_per_day: int, seed: int, processes: int) -> Planted:
    """Write about `lines` lines into files in the directory; return their exact counts."""
    directory.mkdir(parents=True, exist_ok=True)
    days = max(1, round(lines / lines_per_day))
    with ProcessPoolExecutor(processes) as pool:
        written = pool.map(partial(_write_day, directory, lines_per_day, seed, days), range(days))
        return sum(written, Planted())


def _write_day(directory: Path, lines: int, seed: int, days: int, number: int) -> Planted:
    return DayJournal(directory, number, seed, is_last=number == days - 1).write(lines)
