"""Tokens of a file: which are accepted, and when the file is read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lethe.adapters.http_token import MAX_TOKEN_LENGTH, BearerTokens, TokenUnusable, read_tokens
from tests.fakes.rights import open_directory, unprivileged

OLD, NEW = "0123456789abcdef" * 4, "fedcba9876543210" * 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "token"
    made.write_text(OLD + "\n")
    return made


def replace(path: Path, text: str) -> None:
    """As tools replace a secret: a new file is renamed over the old one."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


@pytest.mark.parametrize(
    "header,accepted",
    [
        (f"Bearer {OLD}", True),
        (f"bearer  {OLD} ", True),
        (None, False),
        ("", False),
        ("Bearer", False),
        ("Bearer ", False),
        (OLD, False),
        (f"Basic {OLD}", False),
        (f"Bearer {NEW}", False),
        (f"Bearer {OLD[:-1]}", False),
        (f"Bearer {OLD}0", False),
        (f"Bearer {OLD.upper()}", False),
        (f"Bearer {OLD},{NEW}", False),
        ("Bearer \udcff\u20ac", False),
    ],
)
def test_only_the_token_behind_bearer_is_accepted(path: Path, header: str | None, accepted: bool) -> None:
    assert BearerTokens(path).accepts(header) is accepted


def test_a_file_is_read_as_editors_write_it(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + OLD.encode() + b"\r\n")
    assert BearerTokens(path).accepts(f"Bearer {OLD}")


def test_two_lines_are_two_tokens_so_that_one_can_be_replaced_without_a_gap(path: Path) -> None:
    token = BearerTokens(path)
    assert token.accepts(f"Bearer {OLD}")
    replace(path, f"# the old one goes on Friday\n{OLD}\n\n  {NEW}\n")
    assert token.accepts(f"Bearer {OLD}")
    assert token.accepts(f"Bearer {NEW}")
    replace(path, NEW)
    assert not token.accepts(f"Bearer {OLD}")
    assert token.accepts(f"Bearer {NEW}")


@pytest.mark.parametrize("broken", ["", "short\n", None])
def test_while_the_file_is_no_good_nothing_is_accepted_and_the_log_says_so_once(
    path: Path, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    token = BearerTokens(path)
    assert token.accepts(f"Bearer {OLD}")
    if broken is None:
        path.unlink()
    else:
        replace(path, broken)
    for _ in range(3):
        assert not token.accepts(f"Bearer {OLD}")
        assert not token.accepts("Bearer ")
        assert not token.accepts(None)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert str(path) in caplog.text
    replace(path, OLD)
    assert token.accepts(f"Bearer {OLD}")
    assert caplog.records[-1].getMessage() == f"token file {path} can be used again"


def test_tokens_of_a_file_that_may_not_be_read_any_more_are_refused() -> None:
    with open_directory() as place:
        path = place / "token"
        path.write_text(OLD)
        path.chmod(0o644)
        token = BearerTokens(path)
        with unprivileged():
            assert token.accepts(f"Bearer {OLD}")
        path.chmod(0)
        with unprivileged():
            assert not token.accepts(f"Bearer {OLD}")


def test_a_token_that_every_user_may_read_is_used_and_the_log_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    with open_directory() as place:
        path = place / "token"
        path.write_text(OLD)
        path.chmod(0o600)
        token = BearerTokens(path)
        assert token.accepts(f"Bearer {OLD}")
        path.chmod(0o644)
        for _ in range(3):
            assert token.accepts(f"Bearer {OLD}")
    found = f"every user of this machine may read it; run: chmod o= {path}"
    assert [record.getMessage() for record in caplog.records] == [f"token file {path}: {found}"]


@pytest.mark.parametrize(
    "text,reason",
    [
        ("", "has no token"),
        ("# nothing\n\n", "has no token"),
        ("\nhunter2\n", "line 2 is shorter than 16 characters"),
        ("x" * (MAX_TOKEN_LENGTH + 1), "line 1 is longer than 1024 characters"),
        ("a secret with spaces in it", "line 1 has a character that no HTTP header can carry"),
        ("\u00e9" * 20, "line 1 has a character"),
        ("x" * 70_000, "more than 65,536 bytes"),
    ],
)
def test_a_bad_file_is_refused_without_its_text(path: Path, text: str, reason: str) -> None:
    path.write_text(text)
    with pytest.raises(TokenUnusable, match=reason) as refused:
        read_tokens(path)
    said = str(refused.value)
    assert str(path) in said
    for secret in ("hunter2", "a secret", "xxxx", "\u00e9"):
        assert secret not in said


def test_a_file_that_is_missing_or_a_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenUnusable, match="does not exist; name an existing file with its whole path"):
        read_tokens(tmp_path / "none")
    with pytest.raises(TokenUnusable, match="is a directory; name the file in it"):
        read_tokens(tmp_path)


def test_the_object_holds_no_token(path: Path) -> None:
    token = BearerTokens(path)
    assert token.accepts(f"Bearer {OLD}")
    assert OLD not in repr(token) + repr(vars(token))
