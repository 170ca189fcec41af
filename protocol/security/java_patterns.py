"""Regular expressions of Java's `java.util.regex` as Python patterns that match the same.

What means something else in Python is translated: `.` and `$` follow Java's line terminators, named groups are
`(?<name>...)`. Classes such as `\\d` are ASCII in Java. What cannot be translated surely is refused, because a guess
could give a client another principal than Kafka does:

    \\p{..} \\b \\B \\G \\h \\v \\R \\X \\Q..\\E        flags other than a leading (?i)
    [a-z[0-9]] and && inside [...]              look-behinds of no fixed width
"""

from __future__ import annotations

import re
from typing import Final

_ANY: Final = "[^\\n\\r\\x85\\u2028\\u2029]"
_END: Final = "(?:\\Z|(?=\\r\\n\\Z)|(?<!\\r)(?=\\n\\Z)|(?=[\\r\\x85\\u2028\\u2029]\\Z))"
_CLASSES: Final = frozenset("dDwWsS")
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_GROUPS: Final = ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>")
_NAMED: Final = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_REPETITION: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_HEX: Final = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")
_DOUBLED: Final = ("&&", "--", "||", "~~")
_IGNORE_CASE: Final = "(?i)"


class UnsupportedPattern(ValueError):
    """The pattern is wrong, or means something that cannot be translated surely; the message says what."""


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of Java. Raises UnsupportedPattern."""
    flags = re.ASCII
    start = 0
    if pattern.startswith(_IGNORE_CASE):
        flags |= re.IGNORECASE
        start = len(_IGNORE_CASE)
    try:
        return re.compile(_translated(pattern, start), flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnsupportedPattern(f"{error}") from error


def _translated(pattern: str, place: int) -> str:
    parts: list[str] = []
    while place < len(pattern):
        part, place = _token(pattern, place)
        parts.append(part)
    return "".join(parts)


def _token(pattern: str, place: int) -> tuple[str, int]:
    """Return the translation of the token at this place, and where the next one begins."""
    match pattern[place]:
        case "\\":
            return _escape(pattern, place)
        case "[":
            return _class(pattern, place)
        case "(":
            return _group(pattern, place)
        case ".":
            return _ANY, place + 1
        case "$":
            return _END, place + 1
        case "^":
            return "\\A", place + 1
        case "{":
            repetition = _REPETITION.match(pattern, place)
            if repetition is None:
                raise UnsupportedPattern("'{' begins no repetition; write \\{ for the character")
            return repetition[0], repetition.end()
        case char:
            return char, place + 1


def _escape(pattern: str, place: int) -> tuple[str, int]:
    char = pattern[place + 1 : place + 2]
    if char in _CLASSES and char:
        return f"\\{char}", place + 2
    if char.isascii() and char.isdigit() and char != "0" and not pattern[place + 2 : place + 3].isdigit():
        return f"(?:\\{char})", place + 2
    return _literal(pattern, place)


def _literal(pattern: str, place: int) -> tuple[str, int]:
    """Translate an escape that stands for one character."""
    char = pattern[place + 1 : place + 2]
    if char in _CONTROLS:
        return re.escape(_CONTROLS[char]), place + 2
    if (code := _HEX.match(pattern, place + 1)) is not None:
        return re.escape(chr(int(code[1] or code[2], 16))), code.end()
    if not char or char.isalnum() or not char.isascii():
        raise UnsupportedPattern(f"'\\{char}' is not supported here")
    return re.escape(char), place + 2


def _group(pattern: str, place: int) -> tuple[str, int]:
    if not pattern.startswith("(?", place):
        return "(", place + 1
    for opening in _GROUPS:
        if pattern.startswith(opening, place):
            return opening, place + len(opening)
    named = _NAMED.match(pattern, place)
    if named is None:
        raise UnsupportedPattern(f"{pattern[place : place + 4]!r} is not supported here")
    return f"(?P<{named[1]}>", named.end()


def _class(pattern: str, place: int) -> tuple[str, int]:
    """Translate `[...]`."""
    parts = ["["]
    place += 1
    if pattern.startswith("^", place):
        parts.append("^")
        place += 1
    first = True
    while place < len(pattern):
        char = pattern[place]
        if char == "]" and not first:
            return "".join((*parts, "]")), place + 1
        if char in "[]" or pattern[place : place + 2] in _DOUBLED:
            raise UnsupportedPattern(f"{char!r} inside [...] is not supported here; write \\{char} for the character")
        if char == "\\":
            named = pattern[place + 1 : place + 2]
            part, place = (f"\\{named}", place + 2) if named and named in _CLASSES else _literal(pattern, place)
        else:
            part, place = ("\\^" if char == "^" else char), place + 1
        parts.append(part)
        first = False
    raise UnsupportedPattern("a '[' is not closed")
