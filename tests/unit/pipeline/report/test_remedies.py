"""What to do about each finding, with names that a shell takes as they are."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from lethe.pipeline.report.remedies import remedy
from lethe.pipeline.report.values import Finding
from lethe.protocol.findings import Reason, Standing
from lethe.protocol.remedies import REMAKE_DIRECTORY

RUNBOOK = (Path(__file__).parents[4] / "docs" / "runbook.md").read_text(encoding="utf-8")


def finding(reason: str, what: str = "/d1/orders-0", topic: str = "orders") -> Finding:
    return Finding("disk", "left_over", reason, what, topic, 1, 0, 5, None)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_remedy(reason: Reason) -> None:
    found = remedy(finding(reason.code))
    assert found.does.endswith(".")
    # How a broker is restarted depends on where it runs.
    assert found.command is not None or reason.standing is Standing.PENDING or "estart broker" in found.does


@pytest.mark.parametrize(
    "reason, forgets",
    [
        (Reason.CACHED_WITHOUT_TOPIC, "then it forgets the topic"),
        (Reason.CACHED_OTHER_INCARNATION, "then its cache has only the present topic"),
    ],
)
def test_what_only_a_cache_knows_is_not_cleared_by_another_controller(reason: Reason, forgets: str) -> None:
    """What a controller does not know it cannot name, and what it does not name stays."""
    found = remedy(finding(reason.code, "ghost", "ghost"))
    assert found.does.startswith(f"Restart broker 1: {forgets}")
    assert found.command is None


def test_the_runbook_leaves_leftovers_to_the_one_table() -> None:
    """Two tellings of it drift apart: it told of removing znodes that a controller finishes with by itself."""
    entry = RUNBOOK.partition("## LetheLeftoversFound")[2].partition("\n## ")[0]
    repair = entry.partition("**Repair.**")[2].partition("**Do not**")[0]
    assert " ".join(repair.split()) == (
        "`lethe doctor --fix` repairs what is in ZooKeeper and in caches, after a backup ([doctor.md](doctor.md)). For "
        "directories [surveys.md](surveys.md#what-to-do-about-a-finding) has what to do about each reason."
    )


def test_nobody_is_told_to_remove_a_znode_by_hand() -> None:
    """The runbook says never. The doctor checks in the same write that no topic has come to exist, and keeps a copy."""
    assert remedy(finding(Reason.CONFIG_WITHOUT_TOPIC.code)).command == (
        f"lethe doctor --fix --only {Reason.CONFIG_WITHOUT_TOPIC.code}"
    )
    assert not any("zookeeper-shell" in (remedy(finding(reason.code)).command or "") for reason in Reason)


def test_a_broker_without_a_directory_is_not_restarted_before_another_is_in_sync() -> None:
    """Alone in sync it would be elected with nothing, and the others cut down to that. The runbook says it alike."""
    found = remedy(finding(Reason.REPLICA_WITHOUT_DIRECTORY.code))
    assert found.does.startswith("See that another live broker is in the ISR, then restart broker 1 with a controlled")
    assert found.command == "lethe topics describe --topic orders"
    assert REMAKE_DIRECTORY.replace("broker {broker}", "the broker") in " ".join(RUNBOOK.split())


def test_a_reason_of_a_later_version_is_explained() -> None:
    assert remedy(finding("of_later")).command == "lethe explain orders"


@pytest.mark.parametrize("reason", list(Reason))
def test_names_cannot_become_commands(reason: Reason) -> None:
    evil = "/d1/x; rm -rf / #'"
    command = remedy(finding(reason.code, evil, evil)).command
    if command is not None and evil[:4] in command:
        assert evil in shlex.split(command)


@pytest.mark.parametrize("reason", list(Reason))
def test_nobody_is_told_to_delete_a_topic_or_to_move_what_was_not_seen_lately(reason: Reason) -> None:
    assert "topics delete" not in (remedy(finding(reason.code)).command or "")
    earlier = remedy(finding(reason.code), "2026-11-21 18:44 UTC")
    assert earlier.command == "lethe survey"
    assert "Seen at 2026-11-21 18:44 UTC" in earlier.does


def test_directories_are_moved_and_never_removed() -> None:
    for reason in (Reason.DIRECTORY_WITHOUT_TOPIC, Reason.DIRECTORY_OF_OTHER_INCARNATION, Reason.STRAY_DIRECTORY):
        assert "rm " not in (remedy(finding(reason.code)).command or "")


@pytest.mark.parametrize("reason", ["of_later", *(reason.code for reason in Reason)])
def test_names_cannot_become_options(reason: str) -> None:
    command = remedy(finding(reason, "/d1/-orders-0", "-orders")).command or ""
    words = shlex.split(command)
    assert "-orders" not in words or words[words.index("-orders") - 1] == "--"
