"""What a lake says of its table of unused topics: whom it protects, and whether the table knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lethe.admin.candidates import TABLE
from lethe.admin.lake_rules import read_rules
from lethe.protocol.lake import IDENTITY, encode_identity
from lethe.protocol.lake_rules import PLACE, LakeRules, encode_rules, file_of, made_by

RULES = LakeRules(30, ("billing-*",), False, 300_000)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / TABLE).mkdir(parents=True)
    (tmp_path / IDENTITY).write_text(encode_identity("c1"))
    return tmp_path


def say(lake: Path, number: int, text: str, *, is_made: bool = True) -> None:
    (lake / PLACE).mkdir(exist_ok=True)
    (lake / PLACE / file_of(number)).write_text(text)
    if is_made:
        (lake / PLACE / made_by(number)).touch()


def test_the_newest_rules_hold_for_the_lake_and_for_its_table(lake: Path) -> None:
    assert read_rules(lake) is None
    say(lake, 9, encode_rules(replace(RULES, protected=())))
    say(lake, 10, encode_rules(RULES))
    assert (read_rules(lake), read_rules(lake / TABLE)) == (RULES, RULES)
    (lake / PLACE / ".00000011.json").write_text("half")
    assert read_rules(lake) == RULES


def test_an_export_knows_no_rules(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").touch()
    assert read_rules(tmp_path / "t.jsonl") is None


def test_a_table_that_does_not_know_the_newest_rules_is_refused(lake: Path) -> None:
    say(lake, 1, encode_rules(replace(RULES, protected=())))
    say(lake, 2, encode_rules(RULES), is_made=False)
    with pytest.raises(ValueError, match="rules .* were changed, and the table .* let `lethe pipeline run`"):
        read_rules(lake)


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"unwritten_days": 30}'])
def test_rules_that_cannot_be_understood_are_not_taken_for_none(lake: Path, text: str) -> None:
    say(lake, 1, text)
    with pytest.raises(ValueError, match="00000001.json: it does not say .* --protect"):
        read_rules(lake)
