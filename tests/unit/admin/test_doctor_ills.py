"""The table of ills: each has a remedy that fits the way in which it is repaired."""

from __future__ import annotations

import pytest

from lethe.admin.doctor_ills import Ill, IllKind, RepairWay
from lethe.admin.doctor_repairs import ZnodeRepair, paths_of, repair_of
from lethe.protocol.causes import CauseKind
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper.operations import Data, Stat
from lethe.survey.causes import ObservedCause


def ill_of(kind: IllKind, *, is_repairable: bool = True) -> Ill:
    return Ill(kind, "/a/-b", "-b", BrokerId(3), (0,), names=("n",), is_repairable=is_repairable)


@pytest.mark.parametrize("kind", IllKind)
def test_an_ill_that_is_repaired_says_so_and_one_for_a_person_does_not(kind: IllKind) -> None:
    remedy = ill_of(kind).remedy
    unstable = kind is IllKind.CONTROLLER_UNSTABLE  # repaired with the ills that it comes from
    assert ("lethe doctor --fix" in remedy) is (kind.value.way is not RepairWay.PERSON or unstable)
    assert (f"--only {kind.code}" in remedy) is (kind.may_be_wanted and kind.value.way is not RepairWay.PERSON)
    if kind.value.by_person:
        alone = ill_of(kind, is_repairable=False)
        assert (alone.way, "--fix" in alone.remedy) == (RepairWay.PERSON, False)


@pytest.mark.parametrize("kind", [kind for kind in IllKind if kind.value.way is RepairWay.ZNODES])
def test_each_write_is_known_and_never_fails_on_what_others_wrote(kind: IllKind) -> None:
    ill = ill_of(kind)
    read = dict.fromkeys(paths_of(ill), Data(b"\xff", Stat(1, 2, 3, 0)))
    plan = repair_of(ill, read)
    if isinstance(plan, ZnodeRepair):
        assert ill.what in plan.written
    assert not isinstance(repair_of(ill, dict.fromkeys(read)), ZnodeRepair), "there is nothing to write"


def test_a_topic_s_name_is_no_option_of_a_command() -> None:
    assert ill_of(IllKind.ORDER_FOR_LETHE).remedy.endswith("lethe rescue --topic=-b")


def test_a_waiting_topic_has_the_words_of_its_cause() -> None:
    cause = ObservedCause(CauseKind.BROKER_TO_RETURN, BrokerId(3))
    ill = Ill(IllKind.DELETION_WAITS, "/m", "orders", BrokerId(3), detail="and 2 more topics", cause=cause)
    assert ill.sentence(0) == ("orders waits for broker 3, which is not registered in ZooKeeper (and 2 more topics)")
    assert ill.remedy.startswith("start broker 3")
