"""The subject of a certificate as Java writes it: `X500Principal.getName()`, in the format of RFC 2253.

ACLs and `super.users` contain this text, so every detail counts. The last relative name comes first:

    subject in the certificate                  text
    C=DE, O=Acme, CN=lethe                      CN=lethe,O=Acme,C=DE
    CN=Acme, Inc. + OU=a                        CN=Acme\\, Inc.+OU=a
    emailAddress=a@b.c, CN=lethe                CN=lethe,1.2.840.113549.1.9.1=#16056140622e63

Nine attributes have a keyword. Others, and values that are no text, are written as the hexadecimal DER of the value.
Java decodes each text as UTF-8, whatever its type says; so does this module. No signature is checked here: the
certificate is one that TLS has accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from lethe.protocol.counting import counted

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_IDENTIFIER: Final = 0x06
_VERSION: Final = 0xA0
_FIELDS_BEFORE_SUBJECT: Final = 4
"""Serial number, signature algorithm, issuer, validity."""
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " \r"
_MAX_IDENTIFIER_BYTES: Final = 256


class UnreadableCertificate(ValueError):
    """The bytes are no certificate, or its subject is not well-formed."""


class _Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """Return the certificate's subject (the certificate is DER). Raises UnreadableCertificate."""
    parts = _inside(_only(certificate), _SEQUENCE)
    fields = _inside(parts[0], _SEQUENCE) if parts else []
    skipped = _FIELDS_BEFORE_SUBJECT + (bool(fields) and fields[0].tag == _VERSION)
    if len(fields) <= skipped:
        raise UnreadableCertificate("it ends before the subject")
    return name_text(fields[skipped].whole)


def name_text(name: bytes) -> str:
    """Return the text of an X.500 Name (DER). Raises UnreadableCertificate."""
    return ",".join(_relative_name(element) for element in reversed(_inside(_only(name), _SEQUENCE)))


def _relative_name(element: _Element) -> str:
    return "+".join(_attribute(attribute) for attribute in _inside(element, _SET))


def _attribute(element: _Element) -> str:
    parts = _inside(element, _SEQUENCE)
    if len(parts) != 2 or parts[0].tag != _OBJECT_IDENTIFIER:
        raise UnreadableCertificate("an attribute of its subject is not a type with a value")
    identifier, value = _dotted(parts[0].content), parts[1]
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or identifier}=#{_encoded(value).hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    inner = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in text)
    start = len(inner) - len(inner.lstrip(_BLANK))
    end = len(inner.rstrip(_BLANK))
    return "".join(f"\\{char}" if place < start or place >= end else char for place, char in enumerate(inner))


# --- DER ----------------------------------------------------------------------------------------------------------


def _only(data: bytes) -> _Element:
    elements = list(_elements(data))
    if len(elements) != 1:
        raise UnreadableCertificate("it is not one DER value")
    return elements[0]


def _inside(element: _Element, tag: int) -> list[_Element]:
    if element.tag != tag:
        raise UnreadableCertificate(f"a DER value has the tag {element.tag:#04x} instead of {tag:#04x}")
    elements = list(_elements(element.content))
    if not elements and tag == _SET:
        raise UnreadableCertificate("a part of its subject has no attribute")
    return elements


def _elements(data: bytes) -> Iterator[_Element]:
    offset = 0
    while offset < len(data):
        start = offset
        tag = data[offset]
        length, offset = _length(data, offset + 1)
        if offset + length > len(data):
            raise UnreadableCertificate(f"a DER value of {counted(length, 'byte')} is longer than what holds it")
        yield _Element(tag, data[offset : offset + length], data[start : offset + length])
        offset += length


def _length(data: bytes, offset: int) -> tuple[int, int]:
    if offset >= len(data):
        raise UnreadableCertificate("a DER value has no length")
    first = data[offset]
    if first < 0x80:
        return first, offset + 1
    size = first & 0x7F
    if not 1 <= size <= 4 or offset + 1 + size > len(data):
        raise UnreadableCertificate("a DER value has no valid length")
    return int.from_bytes(data[offset + 1 : offset + 1 + size], "big"), offset + 1 + size


def _encoded(element: _Element) -> bytes:
    """Return the element with the shortest form of its length, whatever the certificate has."""
    size = len(element.content)
    if size < 0x80:
        return bytes((element.tag, size)) + element.content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((element.tag, 0x80 | len(length))) + length + element.content


def _dotted(content: bytes) -> str:
    if not content or content[-1] & 0x80 or len(content) > _MAX_IDENTIFIER_BYTES:
        raise UnreadableCertificate("an attribute of its subject has no valid type")
    arcs, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))
