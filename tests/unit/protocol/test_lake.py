"""What tells a lake from any other directory: which texts are one's, and what is said of the others."""

from __future__ import annotations

import pytest

from lethe.protocol.lake import cluster_of, encode_identity, is_begun


@pytest.mark.parametrize("cluster_id", [None, "abc", 'with "quotes"'])
def test_what_was_written_is_read(cluster_id: str | None) -> None:
    assert cluster_of(encode_identity(cluster_id)) == cluster_id


@pytest.mark.parametrize(
    "text, words",
    [
        ("garbage", "it says of no lake what it is"),
        ("[]", "it names no version"),
        ("{}", "it names no version"),
        ('{"version": true}', "it names no version"),
        ('{"version": 1, "cluster_id": 7}', "its cluster_id is no text"),
        ('{"version": 9, "cluster_id": "c1"}', "version 9, and this program supports 2: use a newer one"),
        ('{"version": 0, "cluster_id": "c1"}', "there is no version 0"),
    ],
)
def test_any_other_text_is_refused_with_what_to_do(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cluster_of(text)


def test_a_text_that_was_cut_off_while_it_was_written_is_known() -> None:
    whole = encode_identity("abc")
    assert all(is_begun(whole[:length]) for length in range(len(whole)))
    assert not any(is_begun(text) for text in ("mine", "{}", '{"cluster_id"', "\n"))
