"""What Java makes of names is compared with Java's own code in tests/authorizer; these are cases to read."""

from __future__ import annotations

import random

import pytest

from lethe.protocol.security.distinguished_names import UnreadableCertificate, name_text, subject_of
from tests.authorizer.names import BMP, GENERAL, IA5, PRINTABLE, UTF8, element, identifier, name

CN, O, EMAIL, TITLE = "2.5.4.3", "2.5.4.10", "1.2.840.113549.1.9.1", "2.5.4.12"  # noqa: E741
Attribute = tuple[str, int, bytes]


def der(*relative: tuple[Attribute, ...]) -> bytes:
    return element(0x30, b"".join(element(0x31, b"".join(map(attribute, each))) for each in relative))


def attribute(each: Attribute) -> bytes:
    kind, tag, value = each
    return element(0x30, identifier(kind) + element(tag, value))


@pytest.mark.parametrize(
    "relative, text",
    [
        ((), ""),
        ((((O, UTF8, b"Acme"),), ((CN, UTF8, b"lethe"),)), "CN=lethe,O=Acme"),
        ((((CN, UTF8, b"a"), (O, UTF8, b"b")),), "CN=a+O=b"),
        ((((CN, PRINTABLE, b" a, b "),),), "CN=\\ a\\, b\\ "),
        ((((CN, UTF8, b'=+<>#;"\\'),),), 'CN=\\=\\+\\<\\>\\#\\;\\"\\\\'),
        ((((CN, UTF8, "é😀".encode()),),), "CN=é😀"),
        ((((CN, UTF8, b"a\0b"),),), "CN=a\\00b"),
        ((((CN, UTF8, b"\xff"),),), "CN=\ufffd"),
        ((((CN, BMP, b"\0a"),),), "CN=\\00a"),
        ((((CN, GENERAL, b"a"),),), "CN=a"),
        ((((CN, 0x02, b"\5"),),), "CN=#020105"),
        ((((EMAIL, IA5, b"a@b.c"),),), "1.2.840.113549.1.9.1=#16056140622e63"),
        ((((TITLE, UTF8, b"x" * 200),),), "2.5.4.12=#0c81c8" + "78" * 200),
    ],
)
def test_names_are_written_as_java_writes_them(relative: tuple[tuple[Attribute, ...], ...], text: str) -> None:
    assert name_text(der(*relative)) == text


def test_a_length_that_is_longer_than_needed_is_written_short() -> None:
    value = bytes((UTF8, 0x82, 0, 1)) + b"x"
    made = element(0x30, element(0x31, element(0x30, identifier(TITLE) + value)))
    assert name_text(made) == "2.5.4.12=#0c0178"


def test_damaged_names_are_refused_and_nothing_else_happens() -> None:
    rng = random.Random(5)
    refused = 0
    for _ in range(2_000):
        data = bytearray(name(rng))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        for read in (name_text, subject_of):
            try:
                read(bytes(data))
            except UnreadableCertificate:
                refused += 1
    assert refused > 1_000


def test_an_identifier_of_absurd_size_is_refused() -> None:
    kind = element(0x06, b"\xff" * 300 + b"\x01")
    made = element(0x30, element(0x31, element(0x30, kind + element(UTF8, b"x"))))
    with pytest.raises(UnreadableCertificate, match="no valid type"):
        name_text(made)
