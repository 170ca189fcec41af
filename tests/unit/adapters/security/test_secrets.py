"""Secrets show themselves to `reveal` alone."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from lethe.adapters.security.prefixed import Place, PlacedSecret
from lethe.adapters.security.secrets import MAX_BYTES, FileSecret, Secret
from lethe.adapters.security.unusable import Unusable

TEXT = "hünter2-é"


@pytest.mark.parametrize("show", [str, repr, "{}".format, "{!r:>40}".format, lambda secret: f"{secret} {secret!r}"])
def test_no_text_shows_it(show: Callable[[Secret], str]) -> None:
    assert TEXT not in show(Secret(TEXT))


@pytest.mark.parametrize("write", [pickle.dumps, json.dumps, orjson.dumps, copy.copy, copy.deepcopy, vars])
def test_nothing_writes_or_copies_it(write: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError) as raised:
        write(Secret(TEXT))
    assert TEXT not in "".join(traceback.format_exception(raised.value))


def test_a_value_that_holds_one_is_not_made_into_a_dictionary() -> None:
    @dataclasses.dataclass(frozen=True)
    class Holding:
        secret: Secret

    with pytest.raises(TypeError, match="neither pickled nor copied"):
        dataclasses.asdict(Holding(Secret(TEXT)))
    assert TEXT not in repr(Holding(Secret(TEXT)))
    assert TEXT not in repr(PlacedSecret(Secret(TEXT), Place("ssl.key.password", "f:1")))


def test_equality(tmp_path: Path) -> None:
    assert Secret(TEXT) == Secret(TEXT)
    assert len({Secret(TEXT), Secret(TEXT), Secret("other")}) == 2
    assert Secret(TEXT) != TEXT
    assert Secret("") != FileSecret(tmp_path)
    assert FileSecret(tmp_path) == FileSecret(tmp_path)
    assert FileSecret(tmp_path) != FileSecret(tmp_path / "x")


@pytest.mark.parametrize(
    "content,text",
    [
        (b"abc", "abc"),
        (b"abc\n", "abc"),
        (b"abc\r\n", "abc"),
        (b"abc\n\n", "abc\n"),
        (b" abc ", " abc "),
        (b"\xef\xbb\xbfabc\n", "abc"),
        (TEXT.encode(), TEXT),
    ],
)
def test_the_end_of_a_files_line_does_not_count(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    secret = FileSecret(path)
    assert secret.reveal() == text
    assert repr(secret) == f"<secret in {path}>"
    assert secret.path == path


@pytest.mark.parametrize(
    "content,message",
    [
        (None, "does not exist; name an existing file"),
        (b"", "is empty; write the secret into it"),
        (b"\n", "is empty; write the secret into it"),
        (b"\xff\xfe", "is not text in UTF-8; write the secret alone into it, as text"),
        (bytes(MAX_BYTES + 1), f"has more than {MAX_BYTES:,} bytes; name the right file"),
    ],
)
def test_a_file_without_a_secret(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Unusable) as raised:
        FileSecret(path).reveal()
    assert str(raised.value).startswith(message)


def test_a_file_is_read_at_each_use(tmp_path: Path) -> None:
    secret = FileSecret(tmp_path / "password")
    for text in ("one", "two"):
        (tmp_path / "password").write_text(text)
        assert secret.reveal() == text
