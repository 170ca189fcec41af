from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from lethe.protocol.counting import counted, listed, plural, topics_listed

_ROOT: Final = Path(__file__).parents[3]
_PACKAGES: Final = ("adapters", "broker", "cli", "cluster", "controller", "pipeline", "protocol", "survey")
_NOUNS: Final = (
    "agents|attempts|batches|brokers|bytes|causes|characters|connections|controllers|days|deletions|directories"
    "|elements|entries|epochs|errors|files|findings|groups|hours|jars|lines|minutes|operations|pages|partitions"
    "|places|problems|refusals|replicas|requests|rows|sections|sessions|surveys|times|topics|tries|warnings"
    "|watchers|writes|znodes"
)
_BEHIND: Final = re.compile(rf" (?!(?:of|to|in|with|from|has|is|was|and|the) )(?:[a-z]+ )?(?:{_NOUNS})\b")
"""A plural noun directly behind the value, or behind one adjective."""
_LOGGED: Final = re.compile(rf"%d (?:[a-z]+ )?(?:{_NOUNS})\b")
_ALLOWED: Final = {
    "%d rows": "duplicates, of which there are two or more",
    "{b} replicas": "the id of a broker",
    "{version} names topics": "the version of a message",
    "{row.size_class.replace('-', '–')} replicas": "a range",
    "{self._max_watchers} pages": "a limit of the program",
    "{existing} partitions": "Kafka's words, as clients know them",
    "{replication_factor} while partitions": "the same",
}


@pytest.mark.parametrize(
    "number,shown",
    [(0, "0 topics"), (1, "1 topic"), (2, "2 topics"), (1500, "1,500 topics"), (0.5, "0.5 topics"), (1.0, "1 topic")],
)
def test_a_number_and_its_noun(number: float, shown: str) -> None:
    assert counted(number, "topic") == shown


@pytest.mark.parametrize(
    "number,shown",
    [(0, "0 directories are"), (1, "1 directory is"), (2, "2 directories are")],
)
def test_words_that_change_with_the_number(number: int, shown: str) -> None:
    assert counted(number, "directory is", "directories are") == shown


def test_the_noun_alone() -> None:
    assert [plural(number, "partition") for number in (0, 1, 2)] == ["partitions", "partition", "partitions"]
    assert plural(1, "is", "are") == "is"


def test_the_first_of_many() -> None:
    assert [listed(range(n), 2) for n in (0, 1, 2, 3)] == ["", "0", "0, 1", "0, 1 and 1 more"]
    assert listed(["a is b", "c is d", "e is f"], 1, "; ") == "a is b; and 2 more"
    assert [topics_listed(list("abc")[:n], 2) for n in (1, 2, 3)] == [
        "topic a",
        "2 topics (a, b)",
        "3 topics (a, b and 1 more)",
    ]


# --- guard --------------------------------------------------------------------------------------------------------


def _is_in_order(value: ast.expr) -> bool:
    """Whether it is a call of the helper, or a constant of the program, whose number the author has seen."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in ("counted", "plural", "count")
    return isinstance(value, ast.Name) and value.id.isupper()


def _findings(source: str) -> Iterator[tuple[int, str]]:
    """Line and words of each value of an f-string that stands before a plural noun."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, behind in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(behind, ast.Constant):
                continue
            found = _BEHIND.match(str(behind.value))
            if found and not _is_in_order(value.value):
                yield value.lineno, f"{{{ast.unparse(value.value)}}}{found[0]}"
    # A plural behind a number that the logger puts in.
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, found[0]) for found in _LOGGED.finditer(node.value))
    # A plural that a condition makes by itself.
    for number, line in enumerate(source.splitlines(), 1):
        if re.search(r"""\{''? if .* else 's'\}|\{'s' if """, line):
            yield number, line.strip()


def test_the_guard_finds_a_plural_behind_a_number() -> None:
    assert [words for _, words in _findings('f"{len(names)} topics are left"')] == ["{len(names)} topics"]
    assert [words for _, words in _findings('f"{n:,} more causes"')] == ["{n} more causes"]
    assert list(_findings("f\"{n} topic{'' if n == 1 else 's'}\""))
    assert not list(_findings("f\"{counted(n, 'topic')} with {MAX_NAMES} names\""))
    assert [words for _, words in _findings("'%s: there are %d open connections'")] == ["%d open connections"]


def test_every_number_in_front_of_a_plural_noun_goes_through_the_helper() -> None:
    """Otherwise readers get "1 topics"."""
    wrong = [
        f"{path.relative_to(_ROOT)}:{line}: {words}"
        for package in _PACKAGES
        for path in sorted((_ROOT / package).rglob("*.py"))
        for line, words in _findings(path.read_text(encoding="utf-8"))
        if words not in _ALLOWED
    ]
    assert not wrong, "use protocol.counting.counted:\n" + "\n".join(wrong)
