"""Reader of `server.properties`: Java's syntax, overrides from the environment, and a declarative schema for both.

A file made for Kafka can be read unchanged. Names of Kafka that Lethe does not use are ignored silently; unknown names
are reported with the closest known one. All wrong values are reported together, each with its file and line, the value,
and the remedy.

Environment variables override the file by the convention of Kafka's container images: `KAFKA_ZOOKEEPER_CONNECT` is
`zookeeper.connect`; `___` stands for `-`, `__` for `_`, `_` for `.`. `LETHE_HTTP_PORT` is `lethe.http.port`.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lethe.adapters.config_environment import Setting, environment_settings, unknown_variables, variable_name
from lethe.adapters.config_kafka_names import KAFKA_NAMES, PLUG_IN_PREFIXES, listener_of, without_listener
from lethe.adapters.security.files import read_file
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.kafka.config_values import parse_boolean

MAX_SHOWN: Final = 120
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Larger files are no properties, such as a device or a disk's image."""
NO_FILE: Final = "environment"
"""Where a property is missing if no file was named."""
_OF_SECRETS: Final = re.compile(r"pass|secret|jaas|digest|credential|token|private|(?:^|\.)key$", re.IGNORECASE)
_NAMING_LISTENERS: Final = (
    *("listeners", "advertised.listeners", "listener.security.protocol.map", "control.plane.listener.name"),
    *("inter.broker.listener.name", "security.inter.broker.protocol"),
)
"""Properties whose values name listeners, with their address, protocol or nothing behind a colon."""
_LIKE_A_NAME: Final = re.compile(r"[a-z][a-z_-]{0,40}|[^.]+(\.[^.]+)+")
"""A word in small letters, or words with dots between. Other lines may be the rest of a key in PEM."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with one property, and its remedy."""

    name: str
    origin: str
    value: str | None
    reason: str
    remedy: str

    def __str__(self) -> str:
        shown = "" if self.value is None else f"={_shown(self.value)}"
        return f"{self.origin}: {self.name}{shown}: {self.reason}; {self.remedy}"


class ConfigError(Exception):
    """The configuration is invalid; `problems` lists all problems. The message contains the warnings too, because a
    misspelt name is often why another one is missing."""

    def __init__(self, problems: Sequence[Problem], warnings: Sequence[str] = ()) -> None:
        super().__init__("\n".join([*map(str, problems), *warnings]))
        self.problems = tuple(problems)


def names_secret(name: str) -> bool:
    """Return whether the value of a property, known or unknown, must not be shown."""
    return _OF_SECRETS.search(name) is not None


# --- the file -----------------------------------------------------------------------------------------------------

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE: Final = " \t\f"
_NEWLINE: Final = re.compile(r"\r\n|\r|\n")


def parse_properties(text: str, source: str) -> tuple[dict[str, Setting], list[Problem]]:
    """Parse Java's properties syntax: comments, continuation lines, escapes.

    A name with two different values is a problem; as in Java, the last one counts.
    """
    found: dict[str, Setting] = {}
    problems: list[Problem] = []
    for number, line in _logical_lines(text):
        origin = f"{source}:{number}"
        raw_name, raw_value = _split(line)
        try:
            name, value = _unescape(raw_name), _unescape(raw_value)
        except ValueError as error:
            problems.append(_bad_escape(raw_name, origin, raw_value, str(error)))
            continue
        before = found.get(name)
        if before is not None and before.value != value:
            secret = names_secret(name)
            reason = f"contradicts {before.origin}, which says {'another' if secret else _shown(before.value)}"
            problems.append(Problem(name, origin, None if secret else value, reason, "keep one of the two lines"))
        found[name] = Setting(value, origin)
    return found, problems


def _bad_escape(name: str, origin: str, value: str, reason: str) -> Problem:
    remedy = "write four hexadecimal digits after \\u, or double the backslash"
    if names_secret(name):
        return Problem(name, origin, None, "has \\u and no character behind it", remedy)
    return Problem(name, origin, value, reason, remedy)


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Yield (first line's number, line joined with its continuations), without blank lines and comments."""
    collected = ""
    first = 0
    for number, line in enumerate(_NEWLINE.split(text), 1):
        stripped = line.lstrip(_SPACE)
        if not first and (not stripped or stripped[0] in "#!"):
            continue
        first = first or number
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2:
            collected += stripped[:-1]
            continue
        yield first, collected + stripped
        collected, first = "", 0
    if first:
        yield first, collected


def _split(line: str) -> tuple[str, str]:
    """Return name and value: the name ends at the first unescaped `=`, `:` or white space."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _SPACE:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_SPACE)
    if rest[:1] in ("=", ":") and rest:
        rest = rest[1:].lstrip(_SPACE)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    made: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            made.append(text[at])
            at += 1
            continue
        following = text[at + 1 : at + 2]
        if following == "u":
            digits = text[at + 2 : at + 6]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise ValueError(f"\\u{digits} is no escaped character")
            made.append(chr(int(digits, 16)))
            at += 6
        else:
            made.append(_ESCAPES.get(following, following))
            at += 2
    # Two escapes may be the halves of one character.
    return "".join(made).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Decode UTF-8, or else Latin-1, which Java uses for such files."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


_NO_TEXT: Final = re.compile(r"[\ud800-\udfff]")
"""Half a character, or what Python makes of a byte in a variable that is not UTF-8."""
_NOT_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")


def binary_offset(data: bytes) -> int | None:
    """Return the offset that shows that a file is no text; None if it may be text.

    A NUL shows it, and in a file that is not UTF-8 any other control character.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        found = _NOT_TEXT.search(data)
        return None if found is None else found.start()
    return data.index(0) if 0 in data else None


# --- the schema ---------------------------------------------------------------------------------------------------


MAX_INT: Final = 2**31 - 1
"""Largest value of Kafka's INT properties."""


class PropertyKind(enum.Enum):
    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    LIST = "list, separated by commas"
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Property:
    """One property: its values and meaning. The configuration's reference page is generated from these."""

    name: str
    kind: PropertyKind
    default: str | None
    """As written in a file; None if there is no default."""
    doc: str
    unit: str = ""
    required: bool = False
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    """Other names that are read if this one is not given; Kafka has such pairs."""


Schema = Mapping[str, Property]


def schema(*groups: Iterable[Property]) -> dict[str, Property]:
    """Return the properties of all groups by name, in order."""
    return {prop.name: prop for group in groups for prop in group}


@dataclass(slots=True)
class Values:
    """Checked values by property name. For a wrong value an accessor returns the default and adds to `problems`, which
    `finish` raises together."""

    schema: Schema
    settings: Mapping[str, Setting] = field(repr=False)
    """They may be secrets."""
    problems: list[Problem]
    warnings: list[str] = field(default_factory=list)
    source: str = NO_FILE
    """The file to which a missing property can be added."""

    def setting(self, name: str) -> Setting | None:
        """Return the setting of the property or of one of its fallbacks; None if missing or blank."""
        prop = self.schema[name]
        for candidate in (name, *prop.fallbacks):
            given = self.settings.get(candidate)
            if given is not None and given.value.strip():
                return given
        return None

    def text(self, name: str) -> str | None:
        """Return the value without surrounding space; None if there is neither value nor default."""
        prop = self.schema[name]
        given = self.setting(name)
        if given is None:
            if prop.required:
                self.missing(name)
            return prop.default
        value = given.value.strip()
        if prop.choices and value not in prop.choices:
            self.wrong(name, "is not one of the possible values", "use one of " + ", ".join(prop.choices))
            return prop.default
        return value

    def integer(self, name: str) -> int:
        """Return the number within the property's bounds; 0 if a wrong one has no default."""
        prop = self.schema[name]
        text = self.text(name)
        if text is None:
            return 0
        number = whole_number(text)
        low, high = prop.minimum, prop.maximum
        if number is None:
            self.wrong(name, "is not a whole number", f"write {_bounds(prop)}")
        elif (low is not None and number < low) or (high is not None and number > high):
            self.wrong(name, "is out of range", f"write {_bounds(prop)}")
        else:
            return number
        return int(prop.default or 0)

    def boolean(self, name: str) -> bool:
        value = parse_boolean(self.text(name) or "")
        if value is None:
            self.wrong(name, "is neither true nor false", "write true or false")
        return value is True

    def items(self, name: str) -> tuple[str, ...]:
        """Return the items of a list, without empty ones."""
        return tuple(item.strip() for item in (self.text(name) or "").split(",") if item.strip())

    def origin(self, name: str) -> str:
        """Return the origin of the value, or `default`."""
        given = self.setting(name)
        return "default" if given is None else given.origin

    def wrong(self, name: str, reason: str, remedy: str) -> None:
        """Note a problem with the given value."""
        given = self.setting(name)
        secret = self.schema[name].kind is PropertyKind.SECRET
        shown = None if given is None or secret else given.value
        self.problems.append(Problem(name, self.origin(name), shown, reason, remedy))

    def missing(self, name: str) -> None:
        """Note that a required property is missing."""
        remedy = f"set {variable_name(name)}" if self.source == NO_FILE else f"add a line {name}=…"
        example = self.schema[name].doc
        self.problems.append(Problem(name, self.source, None, "is missing", f"{remedy} ({example})"))

    def finish(self) -> None:
        """Raise ConfigError if problems were noted."""
        if self.problems:
            raise ConfigError(list(dict.fromkeys(self.problems)), self.warnings)


def read_values(path: Path | None, environ: Mapping[str, str], schema: Schema) -> Values:
    """Read the file (None: there is none) and the environment; report unknown names in `warnings`.

    Raises ConfigError if the file cannot be read, or it or a value is no text.
    """
    settings: dict[str, Setting] = {}
    problems: list[Problem] = []
    if path is not None:
        try:
            data = read_file(path, MAX_FILE_BYTES)
        except Unusable as error:
            raise ConfigError([Problem("file", str(path), None, error.reason, error.remedy)]) from error
        if (offset := binary_offset(data)) is not None:
            reason = f"is no properties file: byte 0x{data[offset]:02x} at offset {offset} is not text"
            raise ConfigError([Problem("file", str(path), None, reason, "name a text file in UTF-8 or Latin-1")])
        settings, problems = parse_properties(decode_text(data), str(path))
    known = {*schema, *(fallback for prop in schema.values() for fallback in prop.fallbacks)}
    settings |= environment_settings(environ, known)
    no_text = [(name, each.origin) for name, each in settings.items() if _NO_TEXT.search(each.value)]
    if no_text:
        raise ConfigError(
            [Problem(*each, None, "has a character that is no text", "write it in UTF-8") for each in no_text]
        )
    warnings = unknown_names(settings | unknown_variables(environ, known), known)
    return Values(schema, settings, problems, warnings, NO_FILE if path is None else str(path))


def unknown_names(settings: Mapping[str, Setting], known: Iterable[str]) -> list[str]:
    """Return a warning for each name that is unknown to both Lethe and Kafka, and for each listener that there is not.

    A name that a plug-in may have chosen is reported where it is nearly a known one."""
    known = {*known}
    warnings = []
    for name, setting in settings.items():
        plain = without_listener(name)
        if name in known or plain in known or plain in KAFKA_NAMES:
            continue
        is_like_one = _LIKE_A_NAME.fullmatch(name) is not None
        near = nearest(plain, known | KAFKA_NAMES) if is_like_one else None
        # The last line of a key may have small letters alone, with = behind them.
        if not is_like_one or (near is None and "." not in name and not setting.value.strip("=")):
            remedy = "if it continues a value, end the line before it with a backslash"
            warnings.append(f"{setting.origin}: a line without the name of a property is ignored; {remedy}")
            continue
        if near is None and name.startswith(PLUG_IN_PREFIXES):
            continue
        hint = "" if near is None else f"; did you mean {name.removesuffix(plain)}{near}?"
        warnings.append(f"{setting.origin}: unknown property {_shown(name)} is ignored{hint}")
    return [*warnings, *_unknown_listeners(settings)]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that somebody may have meant who wrote this one; None if there is none."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)), None)


def _unknown_listeners(settings: Mapping[str, Setting]) -> Iterator[str]:
    """Yield a warning for each property of a listener that no other property names."""
    values = [settings[name].value for name in _NAMING_LISTENERS if name in settings]
    listeners = {word.partition(":")[0].strip().lower() for value in values for word in value.split(",")} - {""}
    for name, setting in settings.items():
        listener = listener_of(name)
        if "listeners" in settings and listener is not None and listener.lower() not in listeners:
            known = ", ".join(sorted(listeners))
            yield f"{setting.origin}: {_shown(name)} is of no listener that is named here ({known}), and is ignored"


def whole_number(text: str) -> int | None:
    """Return the number that these digits say, as Java reads them; None for other text, such as `1_000`."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text) else None


def _bounds(prop: Property) -> str:
    unit = f" of {prop.unit}" if prop.unit else ""
    match prop.minimum, prop.maximum:
        case int(low), int(high):
            return f"a whole number{unit} from {low} to {high}"
        case int(low), None:
            return f"a whole number{unit} from {low} on"
        case _:
            return f"a whole number{unit}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…")
