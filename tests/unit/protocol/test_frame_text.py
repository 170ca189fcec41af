"""Four printable bytes are a text, any others a size."""

from __future__ import annotations

import pytest

from lethe.protocol.frame_text import text_of_size


@pytest.mark.parametrize("text", ["HTTP", "GET ", "SSH-", "220 ", "~~~~"])
def test_a_text_is_shown(text: str) -> None:
    assert text_of_size(int.from_bytes(text.encode())) == text


@pytest.mark.parametrize("size", [0, 100_000_000, 2**29, 2**31 - 1, int.from_bytes(b"HTT\n")])
def test_a_size_is_none(size: int) -> None:
    assert text_of_size(size) is None
