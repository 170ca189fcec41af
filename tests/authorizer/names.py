"""Random distinguished names in DER, and random `ssl.principal.mapping.rules`."""

from __future__ import annotations

import random
from typing import Final

ATTRIBUTES: Final = (
    *("2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11"),
    *("0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25"),
    *("2.5.4.12", "2.5.4.42", "1.2.840.113549.1.9.1", "2.5.4.5", "2.5.4.46", "1.3.6.1.4.1.311.60.2.1.3", "2.999.1"),
)
UTF8, PRINTABLE, T61, IA5, GENERAL, BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E
TAGS: Final = (UTF8, UTF8, UTF8, PRINTABLE, PRINTABLE, T61, IA5, GENERAL, BMP, 0x1C, 0x12, 0x04)
LETTERS: Final = ' ab,=+<>#;"\\\r\n\0é/Ω😀.'
PATTERNS: Final = ("CN=(.*?),.*", "(.*)", ".*", "CN=([^,]*),OU=(.*)", "^CN=(.*?),OU=Ops.*$", ".*?", "[^,]*,?.*")
ATOMS: Final = (
    *("a", "C", "N", "=", ",", ".", "\\.", "\\d", "\\w", "\\s", "\\,", "\\\\", "$", "^", "[a-zA-Z]", "[^,]", "[^=/]"),
    *("[-a]", "[\\w.]", "é", "\\x41", "\\u00e9", " ", "_", "ß", "\\p{L}", "\\b", "[a[b]]", "[a&&b]", "\\Qa\\E", "\\1"),
)
QUANTIFIERS: Final = ("*", "+", "?", "*?", "+?", "??", "{1,2}", "{2}", "*+", "++")
REPLACEMENTS: Final = (
    *("$1", "$2", "$1@$2", "$0", "$12", "$", "x", "\\$1", "${n1}", "$1$7$8", "\\", "$$", "$99999999999", "", "\\/"),
    "$1$3 L",
)


def element(tag: int, content: bytes) -> bytes:
    size = len(content)
    head = bytes((tag, size)) if size < 128 else bytes((tag, 0x82, size >> 8, size & 255))
    return head + content


def identifier(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    content = b""
    for number in (first * 40 + second, *rest):
        part = [number & 127]
        while number := number >> 7:
            part.insert(0, number & 127 | 128)
        content += bytes(part)
    return element(0x06, content)


def name(rng: random.Random) -> bytes:
    """An X.500 name: up to four relative names of up to three attributes."""
    relative = []
    for _ in range(rng.randint(0, 4)):
        attributes = b""
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            tag = rng.choice(TAGS)
            letters = "".join(rng.choice(LETTERS) for _ in range(rng.choice((0, 1, 3, 5, 60))))
            content = letters.encode("utf-16-be") if tag == BMP else letters.encode()
            if tag == T61:
                content = letters.encode("latin-1", "replace")
            attributes += element(0x30, identifier(rng.choice(ATTRIBUTES)) + element(tag, content))
        relative.append(element(0x31, attributes))
    return element(0x30, b"".join(relative))


def text(rng: random.Random) -> str:
    return rng.choice(
        (
            *("CN=Ann,OU=Ops,O=Acme", "CN=a", "CN=aaa,N=C", "cn=é,OU=ß", "CN=a\\,b,C=DE", "aCN=", "CN=Ann\n,O=x"),
            *("CN=x,O=y\n", "", "CN=a b_9,OU=A.B", "\r\n", "CN=a\r\n"),
        )
    )


def rules(rng: random.Random) -> str:
    """Some rules that make sense, some that do not."""
    parts = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        if kind < 0.2:
            parts.append("DEFAULT")
        elif kind < 0.95:
            made = pattern(rng)
            found = rng.choice((*PATTERNS, made, f"{made}.*", f".*{made}.*"))
            found = f"{rng.choice(('', '', '^', '(?i)'))}{found}{rng.choice(('', '', '$'))}"
            case = rng.choice(("", "", "L", "U", "x") if kind < 0.25 else ("", "L", "U"))
            parts.append(f"RULE:{found}/{rng.choice(REPLACEMENTS)}/{case}")
        else:
            parts.append(rng.choice(("", "foo", "RULE:a", "RULE:a/b", "DEFAULTX", "RULE:/x/", "RULE://")))
    return rng.choice((", ", ",", " ,  ")).join(parts)


def pattern(rng: random.Random, depth: int = 0) -> str:
    kind = rng.random()
    if depth > 2 or kind < 0.35:
        return rng.choice(ATOMS)
    inner = pattern(rng, depth + 1)
    if kind < 0.6:
        return inner + pattern(rng, depth + 1)
    if kind < 0.75:
        return f"({inner})"
    if kind < 0.8:
        return f"{rng.choice(('(?:', '(?=', '(?!', '(?<=', '(?<!', '(?>'))}{inner})"
    if kind < 0.92:
        return f"({inner}){rng.choice(QUANTIFIERS)}"
    return f"({inner}|{pattern(rng, depth + 1)})" if kind < 0.96 else f"(?<n{rng.randint(1, 2)}>{inner})"
