"""The one vocabulary of causes: every cause has words that can be filled, and no other module spells one."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lethe.protocol import causes
from lethe.protocol.cause_groups import FROM_CONTROLLER, NOT_WAITED_FOR
from lethe.protocol.causes import HELD_BY, CauseKind

ROOT = Path(__file__).parents[3]
VOCABULARY = ROOT / "protocol" / "causes.py"
VERDICTS = frozenset({"IN_MOTION", "IN_PROGRESS", "NOT_MARKED"})
"""These words name verdicts and columns as well."""
NAMES = frozenset(kind.name for kind in CauseKind if "_" in kind.name) - VERDICTS
CODES = frozenset(name.lower() for name in NAMES)
OPENINGS = tuple(re.split(r"[{(]", kind.value.sentence)[0].strip() for kind in CauseKind)
OTHER_VOCABULARIES = frozenset({"protocol/findings.py", "admin/doctor_ills.py"})
"""Reasons of what is left over, and ills; some have the name of a cause."""


@pytest.mark.parametrize("kind", CauseKind, ids=lambda kind: kind.name)
def test_words_can_be_filled_with_nothing_and_with_everything(kind: CauseKind) -> None:
    bare = causes.sentence(kind, "orders", broker=3)
    full = causes.sentence(
        kind, "orders", broker=3, partitions="partition 1", path="/p", since="12:00:00 (1 s)", detail="why"
    )
    for said in (bare, full, causes.remedy(kind, "orders", broker=3, path="/p")):
        assert not re.search(r"[{}]|  | ,|None|\(\)", said), said
    assert bare.endswith(tuple("abcdefghijklmnopqrstuvwxyz0123456789)"))


def test_every_sentence_is_said_once() -> None:
    """Two members of an enumeration with one value would be one."""
    assert len(CauseKind) == len(CauseKind.__members__)
    assert len({kind.value.sentence for kind in CauseKind}) == len(CauseKind)


@pytest.mark.parametrize("kind", [CauseKind.CONFIGURATION, CauseKind.CONFIGURATION_UNREAD], ids=lambda kind: kind.name)
def test_a_remedy_that_lets_marked_topics_go_says_so(kind: CauseKind) -> None:
    said = causes.remedy(kind, "orders", path="/p")
    assert said.startswith("save a copy of the znode /p, then repair it")
    assert "All marked topics are deleted then, unless delete.topic.enable is false" in said


def test_what_could_not_be_read_is_read_again_by_the_next_controller() -> None:
    """ZooKeeper does not notify of changed access lists, so a repair alone would have no effect."""
    for kind in (CauseKind.READABLE_ZNODE, CauseKind.READABLE_TRASH, CauseKind.CONFIGURATION):
        assert "lethe controller-resign" in causes.remedy(kind, "orders"), kind


def test_only_what_is_not_waited_for_has_no_remedy() -> None:
    assert {kind for kind in CauseKind if not kind.value.remedy} == {*NOT_WAITED_FOR}


def test_names_are_read_in_either_case_and_of_earlier_releases() -> None:
    assert causes.named("BROKER_TO_RETURN") is causes.named("broker_to_return") is CauseKind.BROKER_TO_RETURN
    assert causes.named("NEXT_TRY") is CauseKind.BROKER_ERROR
    assert causes.named("something else") is None


def test_codes_of_journals_stay_what_they_are() -> None:
    """Journals of earlier releases are read with them."""
    assert {
        "PAUSED": CauseKind.RESUMPTION,
        "REASSIGNMENT": CauseKind.REASSIGNMENT,
        "UNREADABLE": CauseKind.READABLE_ZNODE,
        "DISABLED": CauseKind.DISABLED,
        "NO_TOPIC": CauseKind.MARKER_WITHOUT_TOPIC,
        "NOT_CHOSEN": CauseKind.NOT_CHOSEN,
    }.items() <= HELD_BY.items()
    assert set(HELD_BY.values()) <= set(FROM_CONTROLLER)


def test_a_topic_in_a_command_is_quoted_for_a_shell() -> None:
    assert causes.remedy(CauseKind.NOT_MARKED, "-orders") == "lethe topics delete --topic=-orders"
    assert "reassign --cancel -- -orders;" in causes.remedy(CauseKind.REASSIGNMENT, "-orders")


def test_no_other_module_spells_a_cause() -> None:
    listed = subprocess.run(
        ("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    sources = [ROOT / name for name in listed if not name.startswith(("tests/", "benchmarks/"))]
    assert len(sources) > 300
    spelt = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for path in sources
        if path != VOCABULARY and str(path.relative_to(ROOT)) not in OTHER_VOCABULARIES
        for line, text in spelt_in(path.read_text())
    ]
    assert spelt == []


def spelt_in(source: str) -> Iterator[tuple[int, str]]:
    """Lines and texts in which a cause is spelt: as a name, a code, a sentence, or a member of an enumeration."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if text in NAMES or text in CODES or text.strip().startswith(OPENINGS):
                yield node.lineno, text[:60]
        elif isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases):
            for each in node.body:
                for target in each.targets if isinstance(each, ast.Assign) else ():
                    if isinstance(target, ast.Name) and target.id in NAMES:
                        yield each.lineno, f"{node.name}.{target.id}"


@pytest.mark.parametrize(
    "source",
    [
        'x = "BROKER_TO_RETURN"',
        'x = {"broker_to_return": 1}',
        'x = f"waits for broker {b}, which is not registered"',
        "class W(enum.Enum):\n    BROKER_TO_RETURN = 1",
    ],
)
def test_a_second_spelling_is_found(source: str) -> None:
    assert [*spelt_in(source)]
