"""Commands that are shown mean in a shell what they mean on the page."""

from __future__ import annotations

import re
import shlex

import pytest

from lethe.protocol.shell_words import PLAIN, for_shell, operand, option


@pytest.mark.parametrize(
    "name,as_operand,as_option",
    [
        ("orders", "orders", "--topic orders"),
        ("-orders", "-- -orders", "--topic=-orders"),
        ("$(reboot)", "'$(reboot)'", "--topic '$(reboot)'"),
        ("-a b", "-- '-a b'", "--topic='-a b'"),
        ("it's", "'it'\"'\"'s'", "--topic 'it'\"'\"'s'"),
        ("", "''", "--topic ''"),
    ],
)
def test_words_for_a_shell(name: str, as_operand: str, as_option: str) -> None:
    assert (operand(name), option("--topic", name)) == (as_operand, as_option)
    assert shlex.split(operand(name))[-1] == name
    assert (re.fullmatch(PLAIN, name) is not None) == (shlex.quote(name) == name)


def test_placeholders_become_words() -> None:
    assert for_shell("lethe topics delete --topic {topic}") == "lethe topics delete {option}"
    assert for_shell("lethe explain {topic}") == "lethe explain {operand}"
    assert for_shell("start broker {broker}") == "start broker {broker}"
