"""`ssl.principal.mapping.rules`: from the distinguished name of a certificate to the name of a principal.

Rules are separated by commas; the first that matches the whole name decides, as in Kafka's SslPrincipalMapper:

    rules                                               CN=Ann,OU=Ops,O=Acme    CN=b,O=Acme
    DEFAULT                                             CN=Ann,OU=Ops,O=Acme    CN=b,O=Acme
    RULE:^CN=(.*?),OU=Ops.*$/$1/L, DEFAULT              ann                     CN=b,O=Acme
    RULE:^CN=(.*?),OU=Ops.*$/$1/                        Ann                     refused: no rule applies

A rule's pattern matches the whole name; then *each* match in the name is replaced, as Java's replaceAll does. Therefore
`RULE:.*/x/` gives `xx`: the end of the name is a match as well. `/L` and `/U` change the case of the result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from lethe.protocol.security.java_patterns import UnsupportedPattern, compile_pattern

PROPERTY: Final = "ssl.principal.mapping.rules"
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(?:.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE, re.ASCII)
_REFERENCE: Final = re.compile(r"\$(\d+)", re.ASCII)
_MAX_REFERENCE: Final = 0x7FFFFFFF
_DIGITS: Final = "0123456789"


class NoPrincipal(ValueError):
    """The rules give no name for a distinguished name; the message names it, the property and the remedy."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None for DEFAULT."""
    replacement: str
    case: str
    """`L`, `U` or nothing."""


@dataclass(frozen=True, slots=True)
class PrincipalMapping:
    """The rules of one listener. Build it with `parse`."""

    rules: tuple[_Rule, ...]
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the property's value. Raises ValueError that names the property and the rule."""
        found = [match[1] for match in _SPLITTER.finditer(text.strip())]
        return cls(tuple(rule for part in found if (rule := _parsed(part)) is not None), text)

    def name_of(self, distinguished_name: str) -> str:
        """Return the principal's name. Raises NoPrincipal."""
        for rule in self.rules:
            if (name := _applied(rule, distinguished_name)) is not None:
                return name
        raise NoPrincipal(
            f"no rule of {PROPERTY}={self.text!r} applies to the client certificate of {distinguished_name!r}; "
            "add a rule for it, or DEFAULT"
        )


def _parsed(part: str) -> _Rule | None:
    match = _PARSER.match(part)
    if match is None or match.end() != len(part):
        raise ValueError(f"{PROPERTY}: {part!r} is no rule; write RULE:pattern/replacement/ or DEFAULT")
    if match[1] is not None:
        return _Rule(None, "", "")
    if match[2] is None:
        return None
    try:
        return _Rule(compile_pattern(match[2]), match[3], match[4])
    except UnsupportedPattern as error:
        raise ValueError(f"{PROPERTY}: the pattern {match[2]!r} cannot be used: {error}") from error


DEFAULT_MAPPING: Final = PrincipalMapping.parse("DEFAULT")


def _applied(rule: _Rule, name: str) -> str | None:
    if rule.pattern is None:
        return name
    if rule.pattern.fullmatch(name) is None:
        return None
    replacement = _with_literal_references(rule.replacement, rule.pattern.groups)
    result = _replaced(rule.pattern, replacement, name)
    return result.lower() if rule.case == "L" else result.upper() if rule.case == "U" else result


def _replaced(pattern: re.Pattern[str], replacement: str, name: str) -> str:
    """Replace each match, as Java's replaceAll does. After an empty match Python's `sub` looks at its place again."""
    parts: list[str] = []
    copied = place = 0
    while place <= len(name) and (match := pattern.search(name, place)) is not None:
        parts += (name[copied : match.start()], _expanded(replacement, match))
        copied = match.end()
        place = copied + (match.start() == copied)
    return "".join((*parts, name[copied:]))


def _with_literal_references(replacement: str, groups: int) -> str:
    """Return the replacement with a backslash before each `$n` whose group does not exist.

    Like Kafka's, which computes each position without those inserted before, so that only the first one is right.
    """
    if groups == 0:
        return replacement
    result = replacement
    for match in _REFERENCE.finditer(replacement):
        if match[1].startswith("0"):
            continue
        number = int(match[1][:11])
        if number > _MAX_REFERENCE:
            raise _bad_replacement(replacement, f"{match[0]} is no number of a group")
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            result = f"{result[: match.start()]}\\{result[match.start() :]}"
    return result


def _expanded(replacement: str, match: re.Match[str]) -> str:
    """Return the replacement with its references resolved, as Java's Matcher.appendReplacement does."""
    parts: list[str] = []
    place = 0
    while place < len(replacement):
        char = replacement[place]
        place += 1
        if char == "\\":
            parts.append(replacement[place])
            place += 1
        elif char == "$":
            group, place = _reference(replacement, place, match)
            parts.append(match[group] or "")
        else:
            parts.append(char)
    return "".join(parts)


def _reference(replacement: str, place: int, match: re.Match[str]) -> tuple[int, int]:
    """Return the group that the reference after `$` names, and where the reference ends."""
    if replacement[place : place + 1] == "{":
        named = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(replacement, place)
        if named is None or named[1] not in match.re.groupindex:
            raise _bad_replacement(replacement, "the pattern has no group of that name")
        return match.re.groupindex[named[1]], named.end()
    if replacement[place : place + 1] not in _DIGITS or place == len(replacement):
        raise _bad_replacement(replacement, "no number of a group follows the $")
    group = int(replacement[place])
    place += 1
    if group > match.re.groups:
        raise _bad_replacement(replacement, f"the pattern has no group {group}")
    while place < len(replacement) and replacement[place] in _DIGITS:
        longer = group * 10 + int(replacement[place])
        if longer > match.re.groups:
            break
        group, place = longer, place + 1
    return group, place


def _bad_replacement(replacement: str, reason: str) -> NoPrincipal:
    return NoPrincipal(f"the replacement {replacement!r} of a rule in {PROPERTY} cannot be used: {reason}")
