"""The harness of the attacks: it finds open doors, and its page is about the programs that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.attack import Attack, Seen, Verdict, tried
from tests.attacks.secret_values import Secrets, forms_of, found_in
from tests.attacks.setting import WEAK
from tests.attacks.table import ATTACKS, SUBJECTS, deviations, recorded
from tests.attacks.world import World, running

SHORT = (
    "StopReplica with the true id and epochs, by a user without ClusterAction (SASL_SSL)",
    "StopReplica by a user with ClusterAction, with the true epoch and another controller's id",
    "the bytes of a whole session with its login and StopReplica (SASL_PLAINTEXT)",
    "a request target with a foreign name, and an allowed Host",
)
"""These are tried by pytest."""


def test_the_page_is_about_the_programs_that_there_are() -> None:
    assert [row.sent for row in recorded()] == [attack.sent for attack in ATTACKS]
    assert {row.verdict for row in recorded()} == {Verdict.REFUSED.value}


def test_no_two_attacks_send_the_same_and_each_subject_has_one() -> None:
    assert len({attack.sent for attack in ATTACKS}) == len(ATTACKS)
    assert {attack.subject for attack in ATTACKS} == set(SUBJECTS)


def test_each_weakness_is_used() -> None:
    assert {attack.weakness for attack in ATTACKS if attack.weakness} == set(WEAK)


def test_another_result_than_recorded_is_told() -> None:
    (row, *_) = recorded()
    other = type(row)(**{**row.document(), "happened": "something else"})
    (said,) = deviations([other], [row])
    assert "something else" in said
    (said,) = deviations([row], [])
    assert "no such attack" in said


@pytest.mark.parametrize("place", range(3))
def test_a_secret_is_found_in_every_form_and_at_every_place(place: int) -> None:
    secrets = Secrets()
    value = secrets.password("a test")
    forms = list(secrets.forms())
    for encoding, form in forms_of(value):
        assert found_in(b"x" * place + form, forms), encoding
    assert not found_in(value[:-1].encode(), forms)


async def row_of(world: World, attempt: Seen | None, control: str | None = "done") -> tuple[str, str]:
    async def control_it(_: World) -> str:
        assert control is not None, "no right client gets in"
        return control

    async def attempt_it(_: World) -> Seen:
        if attempt is None:
            (world.cluster.work_dir / "outside" / "written").write_text("by the attacker")
            return Seen("refused, as it says", False)
        return attempt

    row = await tried(Attack("a test", "nothing", control_it, attempt_it), world)
    return row.verdict, row.unchanged


@pytest.mark.zookeeper
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.long
async def test_some_attacks_are_refused_and_the_harness_tells_what_happens(tmp_path: Path) -> None:
    before = recorded()
    async with running(tmp_path) as world:
        chosen = [attack for attack in ATTACKS if attack.sent in SHORT]
        assert len(chosen) == len(SHORT)
        assert list(deviations([await tried(attack, world) for attack in chosen], before)) == []
        assert await row_of(world, Seen("got in", True)) == (Verdict.SUCCEEDED.value, "disks, znodes, cache")
        assert await row_of(world, None) == (Verdict.SUCCEEDED.value, "changed: file outside/written")
        assert (await row_of(world, Seen("", False), control=None))[0] == Verdict.UNSEEN.value
        await world.agent.kill()
        assert (await row_of(world, Seen("", False)))[0] == Verdict.UNSEEN.value


@pytest.mark.zookeeper
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
async def test_attacks_succeed_where_doors_are_open(tmp_path: Path) -> None:
    """Each weakness lets the attacks in that it is about."""
    async with running(tmp_path, weak=True) as world:
        rows = [await tried(attack, world) for attack in ATTACKS if attack.weakness is not None]
    assert {row.sent: row.verdict for row in rows} == {row.sent: Verdict.SUCCEEDED.value for row in rows}
    assert len(rows) >= len(WEAK)
