"""JAAS texts: values of `sasl.jaas.config`, and files with the sections KafkaServer, KafkaClient and Client.

Theory of operation. Java reads both with its StreamTokenizer, which surprises: an unquoted number is no text, an
unquoted slash begins a comment, and a quoted text ends with its line. Where Java would take another password than the
one that stands there, or fail with a riddle, the text is refused with a sentence. No message quotes an option's value,
nor a word that may be one because something before it is missing: `password=two words`, or a password alone.

    sasl.jaas.config   org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";
    file               KafkaClient { org.apache.… required username="a" password="b"; };

A file is read by another class of Java than a value, and takes less: no text in single quotes. `${name}` in a file is
a property of Java's process, so it is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

CLIENT_SECTION: Final = "KafkaClient"
SERVER_SECTION: Final = "KafkaServer"
ZOOKEEPER_SECTION: Final = "Client"
"""The section that Kafka uses for ZooKeeper."""

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_MODULE: Final = re.compile(r"LoginModule$")
_OPTION: Final = re.compile(r"username|password|user_\w+|token|tokenauth|keyTab|principal|serviceName")
_SECTION: Final = re.compile(r"(\w+\.)?(KafkaClient|KafkaServer|Client|Server)")
"""Names that are quoted; others may be a part of a secret."""
_SCAN: Final = re.compile(
    r"""(?P<space>[\x00-\x20]+|//[^\n]*|/\*.*?\*/)
      | "(?P<double>(?:\\.|[^"\\\r\n])*)"
      | '(?P<single>(?:\\.|[^'\\\r\n])*)'
      | (?P<word>[A-Za-z_$\u00a0-\U0010ffff][\w$.\u00a0-\U0010ffff-]*)
      | (?P<mark>[{};=])
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a"}


class JaasError(ValueError):
    """The text is no JAAS configuration. The message names the line, the place and the remedy, and quotes no value."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module with its options."""

    module: str
    """Full name of the Java class."""
    flag: str
    """`required`, `requisite`, `sufficient` or `optional`."""
    options: Mapping[str, str] = field(repr=False)

    @property
    def module_name(self) -> str:
        """Name of the class without its package: `ScramLoginModule`."""
        return self.module.rpartition(".")[2]

    def option(self, name: str) -> str:
        """Return the option's value. Raises JaasError if it is missing or empty."""
        value = self.options.get(name)
        if not value:
            raise JaasError(f'{self.module_name} has no {name}: add {name}="…" before the semicolon')
        return value


def parse_config(text: str) -> JaasEntry:
    """Return the one login module of a value of `sasl.jaas.config`. Raises JaasError."""
    reader = _Reader(text, in_file=False)
    entries = []
    while reader.peek() is not None:
        entries.append(_entry(reader))
    if len(entries) != 1:
        raise JaasError(f"a value of sasl.jaas.config has one login module, and this one has {len(entries)}")
    return entries[0]


def parse_file(text: str) -> Mapping[str, Sequence[JaasEntry]]:
    """Return the login modules of each section of a JAAS file, by the section's name. Raises JaasError."""
    reader = _Reader(text, in_file=True)
    sections: dict[str, tuple[JaasEntry, ...]] = {}
    while reader.peek() is not None:
        name = reader.text("the name of a section")
        reader.mark("{", f"the section {name}" if _SECTION.fullmatch(name) else "the name of a section")
        entries = []
        while not reader.takes("}"):
            entries.append(_entry(reader))
        reader.mark(";", f"the section {name}")
        if name in sections:
            raise JaasError(f"the section {name} appears twice")
        sections[name] = tuple(entries)
    return MappingProxyType(sections)


def _entry(reader: _Reader) -> JaasEntry:
    module = reader.text("the class of a login module")
    shown = module if _MODULE.search(module) else "the login module"
    flag = reader.text(f"the flag of {shown}").lower()
    if flag not in _FLAGS:
        raise JaasError(f"line {reader.line}: {shown} is followed by one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    while not reader.takes(";"):
        name = reader.text(f"an option of {shown}, or a semicolon,")
        reader.mark("=", f"the option {name}" if _OPTION.fullmatch(name) else "the name of an option")
        options[name] = reader.value(name)
    return JaasEntry(module, flag, MappingProxyType(options))


class _Token(NamedTuple):
    line: int
    kind: str
    """`text`, `quoted`, or the mark itself."""
    text: str


class _Reader:
    """Returns the tokens of a text one after the other."""

    __slots__ = ("_in_file", "_next", "_tokens", "line")

    def __init__(self, text: str, *, in_file: bool) -> None:
        self._in_file = in_file
        self._tokens = _tokens(text, in_file)
        self.line = 1
        """Line of the token returned last."""
        self._next = next(self._tokens, None)

    def peek(self) -> _Token | None:
        return self._next

    def _take(self, what: str) -> _Token:
        if self._next is None:
            raise JaasError(f"the text ends where {what} is expected: an entry ends with a semicolon")
        taken, self._next = self._next, None
        self.line = taken.line
        self._next = next(self._tokens, None)
        return taken

    def takes(self, mark: str) -> bool:
        """Return whether the next token is this mark, and consume it if so."""
        found = self._next is not None and self._next.kind == mark
        if found:
            self._take(mark)
        return found

    def mark(self, mark: str, after: str) -> None:
        """Consume this mark."""
        if self._take(f"{mark!r} after {after}").kind != mark:
            raise JaasError(f"line {self.line}: {after} is followed by {mark!r}")

    def text(self, what: str) -> str:
        """Return a name, with or without quotes."""
        token = self._take(what)
        if token.kind not in ("text", "quoted") or not token.text:
            raise JaasError(f"line {self.line}: {what} is expected")
        return token.text

    def value(self, option: str) -> str:
        """Return an option's value."""
        token = self._take(f"the value of the option {option}")
        if token.kind not in ("text", "quoted"):
            raise JaasError(f"line {self.line}: the option {option} has no value: put it in double quotes")
        if self._in_file and "${" in token.text:
            raise JaasError(
                f"line {self.line}: the option {option} refers to a property of Java's process (${{…}}), which does "
                f"not exist here: write the value itself"
            )
        return token.text


def _tokens(text: str, in_file: bool) -> Iterator[_Token]:
    line = 1
    for found in _SCAN.finditer(text):
        kind, matched = found.lastgroup or "", found[0]
        if kind == "other" or (kind == "single" and in_file):
            raise JaasError(f"line {line}: {_refusal(matched)}")
        if kind in ("double", "single"):
            yield _Token(line, "quoted", _ESCAPE.sub(_unescaped, found[kind]))
        elif kind != "space":
            yield _Token(line, "text" if kind == "word" else matched, matched)
        line += matched.count("\n")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)


def _refusal(start: str) -> str:
    match start[0]:
        case '"':
            return (
                "a text in double quotes does not end on its line: add the quote, and a backslash before quotes inside"
            )
        case "'":
            return "a text in single quotes: use double quotes"
        case "/":
            return "an unquoted slash begins a comment in Java: put the value in double quotes"
        case "-" | "." | "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9":
            return "an unquoted number is no text in Java: put the value in double quotes"
        case _:
            return "a character that no word contains: put the value in double quotes"
