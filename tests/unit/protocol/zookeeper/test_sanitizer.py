"""Names of users in paths."""

from __future__ import annotations

import pytest

from lethe.protocol.zookeeper.sanitizer import desanitized, sanitized


@pytest.mark.parametrize("name", ["u", "CN=a b", "ä/%", "<default>", ""])
def test_a_name_is_found_again_in_its_path(name: str) -> None:
    assert desanitized(sanitized(name)) == name


@pytest.mark.parametrize("text", ["<default>", "100%", "%zz", "%FF"])
def test_what_is_not_encoded_stays(text: str) -> None:
    assert desanitized(text) == text


def test_a_plus_is_a_space_as_java_decodes_it() -> None:
    assert desanitized("a+b%2B") == "a b+"
