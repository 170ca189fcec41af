"""How a list of reads is divided into requests, and their answers put together again. Pure: it sends nothing.

Theory of operation. Reads without a watch go many at a time (multiRead); how many is learnt from the size of earlier
answers, so that one takes about `reply_target_bytes`. Reads with a watch, and Exists, which multiRead does not know, go
one by one. An answer that was lost puts its reads back in front; one that was too large halves them; a server that does
not know multiRead (before 3.6) gets them one by one from then on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from adapters.zookeeper.connection import Answer, Dropped, Ending, Skipped
from protocol.zookeeper.operations import Children, Data, Exists, Read, ReadFailed, ReadOutcome, ZkError

logger = logging.getLogger(__name__)

_FIRST_CHUNK: Final = 200
_LARGEST_CHUNK: Final = 4000
_REQUEST_BYTES: Final = 256 * 1024


class Job(NamedTuple):
    """Reads that go in one request: their places in the list."""

    places: tuple[int, ...]
    bulk: bool


class Experience:
    """What a session has learnt about its server's answers."""

    def __init__(self, reply_target_bytes: int) -> None:
        self._target_bytes = reply_target_bytes
        self._bytes_per_read = reply_target_bytes / _FIRST_CHUNK
        self.knows_multi_read = True

    @property
    def chunk(self) -> int:
        """How many reads to send together."""
        return max(1, min(int(self._target_bytes / self._bytes_per_read), _LARGEST_CHUNK))

    def learn(self, bytes_per_read: float) -> None:
        """Growing sizes are believed at once, shrinking ones little by little."""
        self._bytes_per_read = max(bytes_per_read, self._bytes_per_read / 4 + bytes_per_read * 3 / 4)


class ReadQueue:
    """The reads of one call, and their outcomes as they become known."""

    def __init__(self, reads: Sequence[Read], experience: Experience) -> None:
        self.reads: Final = reads
        self._experience = experience
        self._outcomes: list[ReadOutcome | None] = [None] * len(reads)
        self._again: deque[Job] = deque()
        self._bulk: deque[int] = deque()
        self._single: deque[int] = deque()
        for place, read in enumerate(reads):
            (self._single if read.watch or isinstance(read, Exists) else self._bulk).append(place)

    @property
    def outcomes(self) -> list[ReadOutcome]:
        """In the order of the reads. Raises ValueError while some are missing."""
        found = [outcome for outcome in self._outcomes if outcome is not None]
        if len(found) != len(self.reads):
            raise ValueError(f"{len(self.reads) - len(found)} reads have no outcome yet")
        return found

    def next_job(self) -> Job | None:
        """What to send next; None while there is nothing."""
        if not self._experience.knows_multi_read:
            self._bulk_one_by_one()
        if self._again:
            return self._again.popleft()
        if self._bulk:
            return Job(self._next_chunk(), bulk=True)
        return Job((self._single.popleft(),), bulk=False) if self._single else None

    def _bulk_one_by_one(self) -> None:
        self._single.extend(self._bulk)
        self._bulk.clear()
        jobs, self._again = self._again, deque()
        for job in jobs:
            self._again.extend(Job((place,), bulk=False) for place in job.places)

    def _next_chunk(self) -> tuple[int, ...]:
        places: list[int] = []
        size = 0
        while self._bulk and len(places) < self._experience.chunk and size < _REQUEST_BYTES:
            size += len(self.reads[self._bulk[0]].path)
            places.append(self._bulk.popleft())
        return tuple(places)

    def settle(self, job: Job, ending: Ending) -> None:
        """Puts the outcomes in their places, or the reads among those that go again."""
        match ending:
            case Dropped() | Answer(error=ZkError.SESSION_MOVED):
                self._again.append(job)
            case Skipped(size) if len(job.places) > 1:
                self._experience.learn(size / len(job.places))
                middle = len(job.places) // 2
                self._again.extend((Job(job.places[:middle], job.bulk), Job(job.places[middle:], job.bulk)))
            case Skipped(size):
                logger.error("the answer to %s has %d bytes and is refused", self.reads[job.places[0]], size)
                self._outcomes[job.places[0]] = ReadFailed(ZkError.MARSHALLING)
            case Answer(error=ZkError.UNIMPLEMENTED) if job.bulk:
                logger.info("this ZooKeeper is older than 3.6: bulk reads go one by one")
                self._experience.knows_multi_read = False
                self._again.append(job)
            case Answer(error=None, value=found) if job.bulk:
                for place, outcome in zip(job.places, found, strict=True):
                    self._outcomes[place] = outcome
                sample = found[:: max(1, len(found) // 50)]
                self._experience.learn(sum(map(_reply_bytes, sample)) / len(sample))
            case Answer():
                for place in job.places:
                    self._outcomes[place] = outcome_of(ending)


def outcome_of(answer: Answer) -> ReadOutcome:
    """The outcome of a read that was sent alone."""
    outcome: ReadOutcome = ReadFailed(answer.error) if answer.error is not None else answer.value
    return outcome


def _reply_bytes(outcome: ReadOutcome) -> int:
    match outcome:
        case Children(names):
            return 13 + sum(map(len, names)) + 4 * len(names)
        case Data(data, _):
            return 81 + len(data or b"")
        case _:
            return 81
