"""`lethe doctor`: what it answers, with which exit code, and how `--fix` and `--restore` go together."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lethe.admin.doctor_backup import BackupFile, read_backup
from lethe.admin.doctor_fix import RepairOutcome, RepairResult, TakeControl
from lethe.admin.doctor_ills import Ill, IllKind
from lethe.admin.doctor_rules import Diagnosis
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer
from lethe.cli.asking import Confirm
from lethe.cli.doctor import FixOptions, backup_in, diagnosis, fixed, restored
from lethe.cli.main import app
from lethe.protocol.journal import JsonValue
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from tests.fakes.questions import agrees, declines
from tests.fakes.sick_cluster import PLANTS, FakeBrokers, make_healthy, tree_of
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply

CONFIG = paths.config_topic("gone")


@pytest.fixture
async def session() -> AsyncIterator[FakeSession]:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await make_healthy(session)
        yield session


@pytest.fixture
def brokers(session: FakeSession) -> FakeBrokers:
    return FakeBrokers(session)


def without_control(_: Diagnosis) -> TakeControl:
    async def control(ills: Sequence[Ill], _: BackupFile) -> list[RepairResult]:
        raise Refusal("one of Lethe's controllers is active")

    return control


async def run(
    session: FakeSession, brokers: FakeBrokers, options: FixOptions, confirm: Confirm | None = None
) -> Answer:
    return await fixed(session, brokers.questions, options, confirm, without_control, settle_s=0)


def field(answer: Answer, name: str) -> JsonValue:
    assert isinstance(answer.data, dict)
    return answer.data[name]


def outcomes(answer: Answer) -> list[tuple[JsonValue, JsonValue]]:
    repairs = field(answer, "repairs")
    assert isinstance(repairs, list)
    return [(each["kind"], each["outcome"]) for each in repairs if isinstance(each, dict)]


async def test_notes_alone_leave_a_cluster_healthy(session: FakeSession, brokers: FakeBrokers) -> None:
    await PLANTS[IllKind.CONFIG_WITHOUT_TOPIC](session, brokers)
    answer = await diagnosis(session, brokers.questions, settle_s=0)
    assert (answer.exit, answer.lines[0], field(answer, "healthy")) == (Exit.OK, "1 note.", True)


async def test_there_and_back(session: FakeSession, brokers: FakeBrokers, tmp_path: Path) -> None:
    for kind in (IllKind.MARKER_WITHOUT_TOPIC, IllKind.CONFIG_WITHOUT_TOPIC, IllKind.CACHED_WITHOUT_TOPIC):
        await PLANTS[kind](session, brokers)
    before = await tree_of(session)
    answer = await run(session, brokers, FixOptions(tmp_path / "b", assumes_yes=True))
    assert outcomes(answer) == [("marker_without_topic", "repaired"), ("cached_without_topic", "refused")]
    assert answer.exit is Exit.NO, "the ghost is there"
    assert before.keys() - (await tree_of(session)).keys() == {paths.delete_topic("gone")}
    named = await run(session, brokers, FixOptions(tmp_path / "c", (IllKind.CONFIG_WITHOUT_TOPIC,), assumes_yes=True))
    assert outcomes(named) == [("config_without_topic", "repaired")]
    for file in ("c", "b"):
        back = await restored(session, await backup_in(tmp_path / file), None)
        assert back.exit is Exit.OK
    after = await tree_of(session)
    told = {path for path in after if path.startswith(f"{paths.CONFIG_CHANGES}/")}
    assert len(told) == 1, "brokers are told of restored settings"
    assert {path: data for path, data in after.items() if path not in told} == before


async def test_what_is_found_again_was_not_repaired(session: FakeSession, brokers: FakeBrokers, tmp_path: Path) -> None:
    await PLANTS[IllKind.CACHED_WITHOUT_TOPIC](session, brokers)

    def claims(_: Diagnosis) -> TakeControl:
        async def control(ills: Sequence[Ill], _: BackupFile) -> list[RepairResult]:
            return [RepairResult(ill, RepairOutcome.REPAIRED) for ill in ills]

        return control

    options = FixOptions(tmp_path / "b", assumes_yes=True)
    answer = await fixed(session, brokers.questions, options, None, claims, settle_s=0)
    assert (outcomes(answer), answer.exit) == ([("cached_without_topic", "refused")], Exit.NO)
    assert field(answer, "backup") is None


@pytest.mark.parametrize("kind", [IllKind.CACHED_WITHOUT_TOPIC, IllKind.IN_NO_CACHE])
async def test_a_cache_that_is_not_seen_afterwards_is_not_said_to_be_repaired(
    session: FakeSession, brokers: FakeBrokers, tmp_path: Path, kind: IllKind
) -> None:
    await PLANTS[kind](session, brokers)

    def silences(_: Diagnosis) -> TakeControl:
        async def control(ills: Sequence[Ill], _: BackupFile) -> list[RepairResult]:
            brokers.silent |= {1, 2}
            return [RepairResult(ill, RepairOutcome.REPAIRED) for ill in ills]

        return control

    options = FixOptions(tmp_path / "b", assumes_yes=True)
    answer = await fixed(session, brokers.questions, options, None, silences, settle_s=0)
    assert (outcomes(answer), answer.exit) == ([(kind.code, "unknown")], Exit.UNREACHABLE)


async def test_what_fix_does_not_repair_is_not_nothing(
    session: FakeSession, brokers: FakeBrokers, tmp_path: Path
) -> None:
    await PLANTS[IllKind.STRAY_DIRECTORY](session, brokers)
    answer = await run(session, brokers, FixOptions(tmp_path / "b", assumes_yes=True))
    assert answer.lines[-1] == ("Nothing was repaired: what is wrong is for a person, or --only has to name its kind.")
    brokers.directories.clear()
    brokers.silent.add(2)
    unseen = await run(session, brokers, FixOptions(tmp_path / "b", assumes_yes=True))
    assert (unseen.exit, unseen.lines[-1]) == (
        Exit.UNREACHABLE,
        "There is nothing to repair, as far as could be seen.",
    )


async def test_the_command_that_takes_repairs_back_is_quoted(
    session: FakeSession, brokers: FakeBrokers, tmp_path: Path
) -> None:
    await PLANTS[IllKind.MARKER_WITHOUT_TOPIC](session, brokers)
    path = tmp_path / "it's mine"
    answer = await run(session, brokers, FixOptions(path, assumes_yes=True))
    assert f"lethe doctor --restore {shlex.quote(str(path))} takes" in answer.lines[0]


async def test_a_controller_that_cannot_be_restored_is_not_as_it_was(
    session: FakeSession, brokers: FakeBrokers, tmp_path: Path
) -> None:
    await PLANTS[IllKind.CONTROLLER_NOT_REGISTERED](session, brokers)
    await run(session, brokers, FixOptions(tmp_path / "b", assumes_yes=True))
    back = await restored(session, await backup_in(tmp_path / "b"), None)
    assert back.lines == (f"{paths.CONTROLLER} belonged to a session that is over, and stays gone.",)


async def test_a_backup_that_cannot_be_written_any_more_names_what_was_done(
    session: FakeSession, brokers: FakeBrokers, tmp_path: Path
) -> None:
    await PLANTS[IllKind.MARKER_WITHOUT_TOPIC](session, brokers)
    await PLANTS[IllKind.CONFIG_CHANGE_UNREADABLE](session, brokers)
    asked: list[str] = []

    async def fills_the_disk(question: str) -> bool:
        asked.append(question)
        if len(asked) > 1:
            (tmp_path / "b").rename(tmp_path / "moved")
        return True

    with pytest.raises(Refusal, match="cannot be written.*; it has what was done by then") as refused:
        await run(session, brokers, FixOptions(tmp_path / "b"), fills_the_disk)
    assert refused.value.exit is Exit.USAGE


async def test_nothing_to_repair(session: FakeSession, brokers: FakeBrokers, tmp_path: Path) -> None:
    answer = await run(session, brokers, FixOptions(tmp_path / "b"))
    assert (answer.exit, answer.lines) == (Exit.OK, ("Nothing is wrong.", "There is nothing to repair."))
    assert not (tmp_path / "b").exists()


async def test_a_backup_that_exists_is_not_overwritten(
    session: FakeSession, brokers: FakeBrokers, tmp_path: Path
) -> None:
    await PLANTS[IllKind.MARKER_WITHOUT_TOPIC](session, brokers)
    (tmp_path / "b").write_text("mine")
    before = await tree_of(session)
    with pytest.raises(Refusal, match="never overwritten") as refused:
        await run(session, brokers, FixOptions(tmp_path / "b"))
    assert (refused.value.exit, await tree_of(session)) == (Exit.USAGE, before)


async def test_a_restore_is_asked_for_and_refused_where_the_tree_has_changed(
    session: FakeSession, brokers: FakeBrokers, tmp_path: Path
) -> None:
    await PLANTS[IllKind.CONFIG_WITHOUT_TOPIC](session, brokers)
    await run(session, brokers, FixOptions(tmp_path / "b"), agrees)
    with pytest.raises(Refusal, match="nothing was done"):
        await restored(session, await backup_in(tmp_path / "b"), declines)
    await apply(session, Create(CONFIG, b"new"))
    with pytest.raises(Refusal, match="the tree has changed since the repair"):
        await restored(session, await backup_in(tmp_path / "b"), None)
    await apply(session, Delete(CONFIG))
    assert (await restored(session, await backup_in(tmp_path / "b"), None)).exit is Exit.OK
    again = await restored(session, await backup_in(tmp_path / "b"), None)
    assert "Nothing had to be restored" in again.lines[0]


async def test_a_session_that_is_lost_in_between_leaves_a_backup(
    session: FakeSession, brokers: FakeBrokers, tmp_path: Path
) -> None:
    await PLANTS[IllKind.MARKER_WITHOUT_TOPIC](session, brokers)
    await PLANTS[IllKind.CONFIG_CHANGE_UNREADABLE](session, brokers)
    asked: list[str] = []

    async def agrees_once(question: str) -> bool:
        asked.append(question)
        if len(asked) > 1:
            session.end("expired")
        return True

    with pytest.raises(Refusal, match="has what was done by then") as refused:
        await run(session, brokers, FixOptions(tmp_path / "b"), agrees_once)
    assert (refused.value.exit, len(read_backup(tmp_path / "b").repairs)) == (Exit.UNREACHABLE, 1)


@pytest.mark.parametrize(
    "options, said",
    [
        (("--only", "marker_without_topic"), "belong to --fix"),
        (("--backup", "b"), "belong to --fix"),
        (("--fix", "--only", "stray_directory"), "nothing that --fix repairs"),
        (("--fix", "--only", "nonsense"), "marker_without_topic"),
        (("--fix", "--restore", "b"), "give one of them"),
    ],
)
def test_a_wrong_command_line_is_said_before_the_cluster_is_asked(options: tuple[str, ...], said: str) -> None:
    ran = CliRunner().invoke(app, ["doctor", "--zookeeper", "127.0.0.1:1", *options])
    assert ran.exit_code == Exit.USAGE
    assert said in ran.stderr
