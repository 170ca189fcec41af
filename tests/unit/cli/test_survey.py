"""`lethe survey`: what is left over decides the exit code, and so does what could not be seen."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import orjson
import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_plans import TopicPlan, creation_operations
from lethe.cli.answer import Answer
from lethe.cli.log_dirs import parse_log_dirs
from lethe.cli.survey import nothing, survey_answer
from lethe.protocol.vocabulary import BrokerId, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import Debt, encode_debt
from lethe.survey.views import NOT_SEEN, LogDirSource, LogDirView, Survey, ZooKeeperTree
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online

UNREAD = "1 topic (1 of them could not be read)"
IN_PARTS = "Nothing is left over in ZooKeeper, in the caches and"


def test_log_dirs() -> None:
    assert parse_log_dirs(["3=/a", "3=/b=c", "1=/d"]) == {3: [Path("/a"), Path("/b=c")], 1: [Path("/d")]}
    for text in ("/a", "x=/a", "3=", "=/a"):
        with pytest.raises(ValueError, match="BROKER=PATH"):
            parse_log_dirs([text])


@pytest.fixture
async def alone(session: FakeSession) -> FakeSession:
    """A cluster whose brokers are all down."""
    await apply(session, *(Delete(paths.broker_id(broker)) for broker in (1, 2, 3)))
    return session


async def test_nothing_left_over(alone: FakeSession, tmp_path: Path) -> None:
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path]})
    assert answer.exit is Exit.OK
    assert answer.lines[-1] == "Nothing is left over."
    assert answer.tables == ()


async def test_bytes_beside_an_unread_log_directory_are_the_least(alone: FakeSession, tmp_path: Path) -> None:
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path, tmp_path / "gone"]})
    assert "2 log directories" in answer.lines[2]
    assert answer.lines[2].endswith("with at least 0 bytes")


@pytest.mark.parametrize(
    "hidden, header, counts",
    [
        (
            paths.BROKER_TOPICS,
            "ZooKeeper: topics unseen, 1 marked for deletion, controller unseen",
            {"topics": None, "partitions": None, "marked": ["orders"]},
        ),
        (
            paths.DELETE_TOPICS,
            "ZooKeeper: 1 topic with 2 partitions, marks for deletion unseen, controller unseen",
            {"topics": 1, "partitions": 2, "marked": None},
        ),
        (
            paths.topic("orders"),
            f"ZooKeeper: {UNREAD} with at least 0 partitions, 1 marked for deletion, controller unseen",
            {"topics": 1, "partitions": None, "marked": ["orders"]},
        ),
    ],
)
async def test_what_may_not_be_read_is_not_counted_as_nothing(
    alone: FakeSession, hidden: str, header: str, counts: dict[str, object]
) -> None:
    plan = TopicPlan("orders", TopicId(uuid.uuid4()), ((1,), (2,)))
    await apply(alone, *creation_operations(plan, config_exists=False), Create(paths.delete_topic("orders"), None))
    answer = await survey_answer(forbidding(alone, hidden, paths.CONTROLLER), PLAINTEXT_REACH, {})
    assert answer.exit is not Exit.OK
    assert answer.lines[0] == header
    assert answer.lines[2] == "Disks:     no log directory seen"
    assert isinstance(answer.data, dict)
    zookeeper = answer.data["zookeeper"]
    assert isinstance(zookeeper, dict)
    assert {name: zookeeper[name] for name in counts} == counts


def _findings(answer: Answer) -> list[object]:
    assert isinstance(answer.data, dict)
    findings = answer.data["findings"]
    assert isinstance(findings, list)
    return [(finding["place"], finding["what"]) for finding in findings if isinstance(finding, dict)]


async def test_left_over_in_two_places(alone: FakeSession, tmp_path: Path) -> None:
    await apply(alone, Create(paths.config_topic("orders"), b'{"version":1,"config":{}}'))
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(b"x" * 1500)
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path]})
    assert answer.exit is Exit.NO
    assert _findings(answer) == [("zookeeper", "/config/topics/orders"), ("disk", str(directory))]
    (table,) = answer.tables
    assert [row[0] for row in table.rows] == ["zookeeper", "disk"]
    assert table.rows[1][5] == "1,500"


async def _orders_on_1_and_2(session: FakeSession) -> None:
    plan = TopicPlan("orders", TopicId(uuid.UUID(int=7)), ((1, 2),))
    await apply(session, *creation_operations(plan, config_exists=False))
    await bring_online(session, "orders", {0: (1, 2)})


async def test_a_broker_that_is_down_is_no_success(alone: FakeSession, tmp_path: Path) -> None:
    """Whatever its disks hold, nobody has looked."""
    await _orders_on_1_and_2(alone)
    (tmp_path / "orders-0").mkdir()
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path]})
    assert (answer.exit, answer.lines[-1]) == (Exit.UNREACHABLE, "Nothing is left over, as far as could be seen.")
    (table,) = answer.tables
    assert (table.title, table.rows) == ("Could not be seen", (("broker 2", NOT_SEEN),))
    assert isinstance(answer.data, dict)
    assert (answer.data["complete"], answer.data["clean"]) == (False, False)
    named = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path], 2: [tmp_path]})
    assert (named.exit, named.lines[-1], named.tables) == (Exit.OK, "Nothing is left over.", ())


@pytest.mark.parametrize(
    "read, said",
    [
        (0, f"{IN_PARTS} on disks as far as brokers tell."),
        (1, f"{IN_PARTS} on the 1 of 3 log directories that were read; brokers reported the others."),
        (3, "Nothing is left over."),
    ],
)
def test_no_more_is_said_than_is_known_of_the_disks(read: int, said: str) -> None:
    """What brokers tell leaves out most of what may be left over."""
    sources = [LogDirSource.LOCAL] * read + [LogDirSource.BROKER] * (3 - read)
    views = tuple(LogDirView(BrokerId(1), f"/d{n}", source) for n, source in enumerate(sources))
    assert nothing(Survey(0, 1, ZooKeeperTree(), log_dirs=views)) == said


async def test_what_could_not_be_seen_is_no_success(alone: FakeSession, tmp_path: Path) -> None:
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path / "missing"]})
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines[-1] == "Nothing is left over, as far as could be seen."
    (table,) = answer.tables
    assert table.title == "Could not be seen"
    assert "missing" in table.rows[0][0]


async def test_what_is_left_over_decides_where_not_everything_could_be_seen_either(
    alone: FakeSession, tmp_path: Path
) -> None:
    (tmp_path / "orders-0").mkdir()
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path, tmp_path / "missing"]})
    assert answer.exit is Exit.NO
    assert [table.title for table in answer.tables] == ["Left over", "Could not be seen"]


async def test_a_survey_is_kept_where_it_was_asked_for(alone: FakeSession, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path / "logs"]}, tmp_path)
    assert isinstance(answer.data, dict)
    kept = Path(str(answer.data["kept"]))
    assert (kept.parent, answer.exit, answer.lines[-1]) == (tmp_path, Exit.OK, f"Kept in {kept}")
    assert orjson.loads((kept / "survey.json").read_bytes())["survey_id"] == kept.name
    assert (await survey_answer(alone, PLAINTEXT_REACH, {})).data["kept"] is None  # type: ignore[index, call-overload]


async def test_what_cannot_be_kept_is_refused_in_words(alone: FakeSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match=f"--out: the survey cannot be kept in {tmp_path}/file/x: Not a dir") as refused:
        await survey_answer(alone, PLAINTEXT_REACH, {}, tmp_path / "file" / "x")
    assert refused.value.exit is Exit.USAGE


async def test_names_that_are_no_text_are_shown(alone: FakeSession, tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/h\xe9")
    strange = tmp_path / "h\udce9"
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path, strange, strange / "gone"]}, strange)
    assert orjson.dumps(answer.data).count(b"h\\\\xe9") == 5
    "".join((*answer.lines, *(cell for table in answer.tables for row in table.rows for cell in row))).encode()


async def test_counts_are_written_for_prometheus(alone: FakeSession, tmp_path: Path) -> None:
    (tmp_path / "logs" / "orders-0").mkdir(parents=True)
    file = tmp_path / "lethe.prom"
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path / "logs"]}, textfile=file)
    assert answer.exit is Exit.NO
    text = file.read_text()
    assert 'lethe_survey_findings{standing="left_over",reason="directory_without_topic"} 1\n' in text
    with pytest.raises(Refusal, match="cannot be written"):
        await survey_answer(alone, PLAINTEXT_REACH, {}, textfile=tmp_path / "missing" / "lethe.prom")


async def test_what_brokers_owe_stands_apart_and_is_no_leftover(alone: FakeSession, tmp_path: Path) -> None:
    await alone.ensure_path(paths.debts_of(3))
    debt = Debt(None, (0,), 0, 1_000, 64)
    await apply(alone, Create(paths.debt(3, "gone", 17), encode_debt(debt)))
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path]})
    assert answer.exit is Exit.OK
    assert answer.lines[-2:] == (
        (
            "Owed: broker 3 owes 1 partition of 1 deleted topic, 64 bytes, since 1970-01-01T00:00:01.000Z; "
            "Kafka's controllers leave them when it is back: then lethe brokers settle 3 has them deleted"
        ),
        "Nothing is left over.",
    )
    (tmp_path / "gone-0").mkdir()
    seen = await survey_answer(alone, PLAINTEXT_REACH, {3: [tmp_path]})
    assert (seen.exit, seen.lines[-1]) == (Exit.OK, "Nothing is left over.")
    assert _findings(seen) == [("disk", f"{tmp_path}/gone-0")]


async def test_a_debt_that_cannot_be_read_is_not_passed_over(alone: FakeSession, tmp_path: Path) -> None:
    await alone.ensure_path(paths.debts_of(3))
    await apply(alone, Create(paths.debt(3, "gone", 17), b"?"))
    answer = await survey_answer(alone, PLAINTEXT_REACH, {1: [tmp_path]})
    assert answer.exit is Exit.UNREACHABLE
    assert answer.tables[-1].rows[0][0] == "/lethe/debts/3/gone@17"
