"""How reads are divided into requests, whatever becomes of those."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.adapters.zookeeper.bulk import FEWEST_TOGETHER, BatchSizer, Job, ReadQueue, RequestMode
from lethe.adapters.zookeeper.connection import Answer, Completion, Dropped, Skipped
from lethe.adapters.zookeeper.wire import ExistsOutcome
from lethe.protocol.zookeeper.operations import (
    Data,
    Exists,
    GetChildren,
    GetData,
    Present,
    Read,
    ReadFailed,
    ReadOutcome,
    Stat,
    ZkError,
)

STAT = Stat(1, 1, 0, 0)


def answer(reads: list[Read], job: Job, size: int = 10) -> Answer:
    found: list[ReadOutcome] = [Data(reads[place].path.encode().ljust(size), STAT) for place in job.places]
    if job.mode is RequestMode.ARM:
        return Answer(2, None, None)
    return Answer(1, None, found if job.mode is RequestMode.TOGETHER else found[0])


def test_reads_without_a_watch_go_together_and_a_few_others_alone() -> None:
    reads: list[Read] = [GetData("/a"), GetData("/b", True), GetChildren("/c"), Exists("/d"), Exists("/e", True)]
    queue = ReadQueue(reads, BatchSizer(1_000_000))
    assert [queue.next_job() for _ in range(5)] == [
        Job((0, 2), RequestMode.TOGETHER),
        Job((1,), RequestMode.ALONE),
        Job((3,), RequestMode.ALONE),
        Job((4,), RequestMode.ALONE),
        None,
    ]


def test_exists_is_answered_from_the_data_and_asked_alone_where_that_must_not_be_read() -> None:
    more = [Exists(f"/{number}") for number in range(FEWEST_TOGETHER)]
    reads: list[Read] = [Exists("/marker"), Exists("/secret"), Exists("/gone"), GetData("/secret"), *more]
    queue = ReadQueue(reads, BatchSizer(1_000_000))
    together = queue.next_job()
    assert together == Job(tuple(range(len(reads))), RequestMode.TOGETHER)
    refused, missing, marker = ReadFailed(ZkError.NO_AUTH), ReadFailed(ZkError.NO_NODE), Present(STAT, 17, 18)
    found = [ExistsOutcome(marker, 500)] * len(more)
    queue.settle(together, Answer(1, None, [ExistsOutcome(marker, 500), refused, missing, refused, *found]))
    alone = queue.next_job()
    assert alone == Job((1,), RequestMode.ALONE)
    queue.settle(alone, Answer(2, None, Present(STAT, 5, 6)))
    assert queue.next_job() is None
    assert queue.outcomes == [marker, Present(STAT, 5, 6), missing, refused, *([marker] * len(more))]


def test_the_data_that_comes_with_exists_counts_for_the_size_of_answers() -> None:
    sizer = BatchSizer(1_000_000)
    queue = ReadQueue([Exists("/large")] * FEWEST_TOGETHER, sizer)
    job = queue.next_job()
    assert job is not None
    queue.settle(job, Answer(1, None, [ExistsOutcome(Present(STAT), 400_000)] * FEWEST_TOGETHER))
    assert sizer.chunk == 2


def watched(count: int) -> list[Read]:
    return [GetData(f"/{n}", watch=True) for n in range(count)]


def test_many_watches_follow_what_was_found_at_the_zxid_of_that_answer() -> None:
    reads = [*watched(FEWEST_TOGETHER), GetData("/plain"), GetChildren("/c", watch=True)]
    queue = ReadQueue(reads, BatchSizer(1_000_000))
    together, alone = queue.next_job(), queue.next_job()
    assert together == Job(tuple(range(FEWEST_TOGETHER + 1)), RequestMode.TOGETHER)
    assert alone == Job((FEWEST_TOGETHER + 1,), RequestMode.ALONE)
    assert queue.next_job() is None
    good = answer(reads, together).value
    good[2] = ReadFailed(ZkError.NO_NODE)
    good[4] = ReadFailed(ZkError.NO_AUTH)
    queue.settle(together, Answer(77, None, good))
    queue.settle(alone, answer(reads, alone))
    arm = queue.next_job()
    assert arm is not None
    assert arm[:3] == ((0, 1, 3, 5, 6, 7), RequestMode.ARM, 77)
    assert arm.arming is not None
    assert arm.arming.waiting == ["/0", "/1", "/3", "/5", "/6", "/7"]
    queue.settle(arm, Dropped("closed"))
    assert queue.next_job() == arm, "armed on the next connection, as of the same answer"
    queue.settle(arm, answer(reads, arm))
    assert queue.next_job() is None
    assert queue.outcomes[:-1] == good


@pytest.mark.parametrize(
    "completion", [Answer(1, ZkError.MARSHALLING, None), Answer(1, ZkError.OTHER, None), Skipped(9)]
)
def test_what_could_not_be_armed_together_is_read_again_alone(completion: Completion) -> None:
    sizer = BatchSizer(1_000_000)
    reads = watched(20)
    queue = ReadQueue(reads, sizer)
    together = queue.next_job()
    assert together is not None
    queue.settle(together, answer(reads, together))
    arm = queue.next_job()
    assert arm is not None
    queue.settle(arm, completion)
    with pytest.raises(ValueError, match="20 reads have no outcome"):
        _ = queue.outcomes
    jobs = []
    while job := queue.next_job():
        jobs.append(job)
        queue.settle(job, answer(reads, job))
    assert jobs == [Job((n,), RequestMode.ALONE) for n in range(20)]
    assert len(queue.outcomes) == 20
    assert ReadQueue(reads, sizer).next_job() == Job((0,), RequestMode.ALONE), "learnt for the whole session"


def test_a_server_without_multi_read_still_arms_what_another_has_read() -> None:
    sizer = BatchSizer(20_000)
    sizer.learn(2_000)
    reads = watched(20)
    queue = ReadQueue(reads, sizer)
    first, second = queue.next_job(), queue.next_job()
    assert first is not None
    assert second is not None
    queue.settle(first, answer(reads, first, 2_000))
    queue.settle(second, Answer(1, ZkError.UNIMPLEMENTED, None))
    arm = queue.next_job()
    assert arm is not None
    assert arm[:3] == (first.places, RequestMode.ARM, 1)
    assert queue.next_job() == Job(second.places[:1], RequestMode.ALONE)


def test_the_size_of_answers_decides_how_many_go_together() -> None:
    sizer = BatchSizer(1_000_000)
    reads: list[Read] = [GetData(f"/{n}") for n in range(20_000)]
    queue = ReadQueue(reads, sizer)
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


@pytest.mark.parametrize("chroot_bytes, limit_bytes", [(0, 1_048_575), (1000, 1_048_575), (0, 20_000), (300, 20_000)])
def test_no_request_comes_near_to_what_zookeeper_takes(chroot_bytes: int, limit_bytes: int) -> None:
    sizer = BatchSizer(1_000_000, chroot_bytes=chroot_bytes, request_limit_bytes=limit_bytes)
    sizer.learn(1)
    reads: list[Read] = [GetData("/" + "ä" * 100, watch=True)] * 4000
    queue = ReadQueue(reads, sizer)
    jobs = []
    while job := queue.next_job():
        jobs.append(len(job.places))
    assert sum(jobs) == 4000
    assert max(jobs) * (chroot_bytes + 201 + 14) < limit_bytes


def test_a_request_does_not_grow_with_the_names() -> None:
    reads: list[Read] = [GetData(f"/{n}/{'x' * 100_000}") for n in range(10)]
    job = ReadQueue(reads, BatchSizer(1_000_000)).next_job()
    assert job is not None
    assert len(job.places) == 3


def test_an_answer_too_large_is_asked_for_in_halves_and_at_last_refused() -> None:
    reads: list[Read] = [GetData(f"/{n}") for n in range(4)]
    queue = ReadQueue(reads, BatchSizer(1_000_000))
    sent = []
    while job := queue.next_job():
        sent.append(len(job.places))
        queue.settle(job, Skipped(5_000_000) if 2 in job.places else answer(reads, job))
    assert sent == [4, 2, 2, 1, 1]
    assert queue.outcomes[2] == ReadFailed(ZkError.MARSHALLING)
    assert [type(outcome) for outcome in queue.outcomes] == [Data, Data, ReadFailed, Data]


def test_a_server_without_multi_read_is_asked_one_by_one_from_then_on() -> None:
    sizer = BatchSizer(1_000_000)
    reads: list[Read] = [GetData(f"/{n}") for n in range(300)]
    queue = ReadQueue(reads, sizer)
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
    assert not any(job.mode is RequestMode.TOGETHER for job in jobs)
    assert ReadQueue(reads, sizer).next_job() == Job((0,), RequestMode.ALONE)


def test_outcomes_are_asked_for_at_the_end() -> None:
    with pytest.raises(ValueError, match="1 read has no outcome"):
        _ = ReadQueue([GetData("/a")], BatchSizer(1_000)).outcomes


@given(st.lists(st.booleans(), max_size=50), st.data(), st.integers(1, 6))
def test_every_read_gets_its_own_outcome_and_its_watch(wanted: list[bool], source: st.DataObject, chunk: int) -> None:
    reads: list[Read] = [GetData(f"/{n}", watch) for n, watch in enumerate(wanted)]
    sizer = BatchSizer(200 * 100)
    sizer.learn(200 * 100 / chunk)
    queue = ReadQueue(reads, sizer)
    in_flight: list[Job] = []
    armed: dict[int, None] = {}
    harm = 12
    while True:
        if len(in_flight) < 4 and (job := queue.next_job()):
            in_flight.append(job)
            continue
        if not in_flight:
            break
        job = in_flight.pop(0)
        completion: Completion = answer(reads, job)
        if harm and source.draw(st.booleans()):
            harm -= 1
            others: list[Completion] = [Dropped("lost"), Answer(1, ZkError.SESSION_MOVED, None)]
            others += [Skipped(9_999_999)] if len(job.places) > 1 else []
            others += [Answer(1, ZkError.UNIMPLEMENTED, None)] if job.mode is RequestMode.TOGETHER else []
            others += [Answer(1, ZkError.MARSHALLING, None)] if job.mode is RequestMode.ARM else []
            completion = source.draw(st.sampled_from(others))
        if job.mode is RequestMode.ARM and isinstance(completion, Answer) and completion.error is None:
            armed.update(dict.fromkeys(job.places))
        if job.mode is RequestMode.ALONE and isinstance(completion, Answer) and completion.error is None:
            armed.update((place, None) for place in job.places if reads[place].watch)
        queue.settle(job, completion)
    assert sorted(armed) == [place for place, read in enumerate(reads) if read.watch]
    found = [outcome.data for outcome in queue.outcomes if isinstance(outcome, Data)]
    assert found == [read.path.encode().ljust(10) for read in reads]


def test_a_path_that_no_request_can_hold_is_not_sent() -> None:
    long = "/" + "ä" * 300_000
    reads: list[Read] = [GetData("/a"), GetData(long), Exists(long, watch=True)]
    queue = ReadQueue(reads, BatchSizer(1_000_000, request_limit_bytes=1_048_575))
    job = queue.next_job()
    assert job == Job((0,), RequestMode.TOGETHER)
    queue.settle(job, answer(reads, job))
    assert queue.next_job() is None
    assert queue.outcomes[1:] == [ReadFailed(ZkError.MARSHALLING)] * 2
