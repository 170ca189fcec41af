"""How reads are divided into requests, whatever becomes of those."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.zookeeper.bulk import Experience, Job, ReadQueue
from adapters.zookeeper.connection import Answer, Dropped, Ending, Skipped
from protocol.zookeeper.operations import (
    Data,
    Exists,
    GetChildren,
    GetData,
    Read,
    ReadFailed,
    ReadOutcome,
    Stat,
    ZkError,
)

STAT = Stat(1, 1, 0, 0)


def answer(reads: list[Read], job: Job, size: int = 10) -> Answer:
    found: list[ReadOutcome] = [Data(reads[place].path.encode().ljust(size), STAT) for place in job.places]
    return Answer(1, None, found if job.bulk else found[0])


def test_reads_without_a_watch_go_together_and_the_others_alone() -> None:
    reads: list[Read] = [GetData("/a"), GetData("/b", True), GetChildren("/c"), Exists("/d")]
    queue = ReadQueue(reads, Experience(1_000_000))
    assert [queue.next_job() for _ in range(4)] == [Job((0, 2), True), Job((1,), False), Job((3,), False), None]


def test_the_size_of_answers_decides_how_many_go_together() -> None:
    experience = Experience(1_000_000)
    reads: list[Read] = [GetData(f"/{n}") for n in range(20_000)]
    queue = ReadQueue(reads, experience)
    sizes = []
    for size in (10_000, 10_000, 100, 100, 100, 100, 100):
        job = queue.next_job()
        assert job is not None
        sizes.append(len(job.places))
        queue.settle(job, answer(reads, job, size))
    assert sizes[0] == 200
    assert sizes[1] < 110
    assert sizes[2:] == sorted(sizes[2:])
    assert sizes[-1] > 3000


def test_a_request_does_not_grow_with_the_names() -> None:
    reads: list[Read] = [GetData(f"/{n}/{'x' * 100_000}") for n in range(10)]
    job = ReadQueue(reads, Experience(1_000_000)).next_job()
    assert job is not None
    assert len(job.places) == 3


def test_an_answer_too_large_is_asked_for_in_halves_and_at_last_refused() -> None:
    reads: list[Read] = [GetData(f"/{n}") for n in range(4)]
    queue = ReadQueue(reads, Experience(1_000_000))
    sent = []
    while job := queue.next_job():
        sent.append(len(job.places))
        queue.settle(job, Skipped(5_000_000) if 2 in job.places else answer(reads, job))
    assert sent == [4, 2, 2, 1, 1]
    assert queue.outcomes[2] == ReadFailed(ZkError.MARSHALLING)
    assert [type(outcome) for outcome in queue.outcomes] == [Data, Data, ReadFailed, Data]


def test_a_server_without_multi_read_is_asked_one_by_one_from_then_on() -> None:
    experience = Experience(1_000_000)
    reads: list[Read] = [GetData(f"/{n}") for n in range(300)]
    queue = ReadQueue(reads, experience)
    first, second = queue.next_job(), queue.next_job()
    assert first is not None
    assert second is not None
    queue.settle(first, Answer(1, ZkError.UNIMPLEMENTED, None))
    queue.settle(second, Dropped("closed"))
    jobs = []
    while job := queue.next_job():
        jobs.append(job)
        queue.settle(job, answer(reads, job))
    assert sorted(job.places[0] for job in jobs) == list(range(300))
    assert not any(job.bulk for job in jobs)
    assert ReadQueue(reads, experience).next_job() == Job((0,), False)


def test_outcomes_are_asked_for_at_the_end() -> None:
    with pytest.raises(ValueError, match="1 reads have no outcome"):
        _ = ReadQueue([GetData("/a")], Experience(1_000)).outcomes


@given(st.lists(st.booleans(), max_size=50), st.data(), st.integers(1, 6))
def test_every_read_gets_its_own_outcome(watched: list[bool], source: st.DataObject, chunk: int) -> None:
    reads: list[Read] = [GetData(f"/{n}", watch) for n, watch in enumerate(watched)]
    experience = Experience(200 * 100)
    experience.learn(200 * 100 / chunk)
    queue = ReadQueue(reads, experience)
    in_flight: list[Job] = []
    harm = 12
    while True:
        if len(in_flight) < 4 and (job := queue.next_job()):
            in_flight.append(job)
            continue
        if not in_flight:
            break
        job = in_flight.pop(0)
        ending: Ending = answer(reads, job)
        if harm and source.draw(st.booleans()):
            harm -= 1
            others: list[Ending] = [Dropped("lost"), Answer(1, ZkError.SESSION_MOVED, None)]
            others += [Skipped(9_999_999)] if len(job.places) > 1 else []
            others += [Answer(1, ZkError.UNIMPLEMENTED, None)] if job.bulk else []
            ending = source.draw(st.sampled_from(others))
        queue.settle(job, ending)
    found = [outcome.data for outcome in queue.outcomes if isinstance(outcome, Data)]
    assert found == [read.path.encode().ljust(10) for read in reads]
