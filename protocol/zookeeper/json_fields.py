"""Readers of JSON fields written by others; every violation raises MalformedZnode, naming the znode and the field.

Like Kafka's own readers, these are strict about types (an int has 32 bits, and is no string, float or boolean) and
ignore fields that they do not read.
"""

from __future__ import annotations

from typing import Final, NoReturn

import orjson

from lethe.protocol.counting import counted
from lethe.protocol.vocabulary import MAX_PARTITIONS

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

INT32_MAX: Final = 0x7FFFFFFF
INT32_MIN: Final = -0x80000000
INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF
_SHOWN_BYTES: Final = 120


class MalformedZnode(ValueError):
    """A znode holds something that Kafka would not have written. `path` names the znode, `reason` the fault."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"znode {path} cannot be understood: {reason}")
        self.path = path
        self.reason = reason


def malformed(path: str, reason: str) -> NoReturn:
    """Raise MalformedZnode."""
    raise MalformedZnode(path, reason)


def shown(data: bytes) -> str:
    """Return the data for a message: printable and short."""
    text = ascii(data[:_SHOWN_BYTES])[1:]
    return text if len(data) <= _SHOWN_BYTES else f"{text}… ({counted(len(data), 'byte')})"


def dump(value: object) -> bytes:
    """Return compact UTF-8 JSON, keys in the given order."""
    return orjson.dumps(value)


def parse_object(path: str, data: bytes | None) -> dict[str, Json]:
    """Return the JSON object in the znode's data."""
    if not data:
        malformed(path, "it has no data")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        malformed(path, f"not JSON ({error}): {shown(data)}")
    if not isinstance(value, dict):
        malformed(path, f"expected a JSON object, found {kind_of(value)}: {shown(data)}")
    return value


def kind_of(value: object) -> str:
    """Return the JSON type of the value, or the value itself if it is small."""
    match value:
        case None:
            return "null"
        case bool() | int() | float():
            return f"{str(value).lower():.40}"
        case str():
            return f"the string {value[:40]!r}"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return type(value).__name__


def integer(
    path: str,
    where: str,
    value: object,
    *,
    minimum: int = INT32_MIN,
    maximum: int = INT32_MAX,
    default: int | None = None,
) -> int:
    """Return a whole number in the given range; `default` if the key is missing or null."""
    if value is None and default is not None:
        return default
    if type(value) is not int:
        malformed(path, f"{where} must be a whole number, found {kind_of(value)}")
    if not minimum <= value <= maximum:
        malformed(path, f"{where} must be between {minimum} and {maximum}, found {value}")
    return value


def string(path: str, where: str, value: object) -> str:
    """Return a string."""
    if not isinstance(value, str):
        malformed(path, f"{where} must be a string, found {kind_of(value)}")
    return value


def number_text(path: str, where: str, value: object) -> int:
    """Return a whole number written as a string, as Kafka writes times and producer ids."""
    text = string(path, where, value)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or int(digits) > INT64_MAX:
        malformed(path, f"{where} must be a string of digits, found {kind_of(text)}")
    return int(text)


def mapping(path: str, where: str, value: object) -> dict[str, Json]:
    """Return an object; empty if the key is missing or null."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        malformed(path, f"{where} must be an object, found {kind_of(value)}")
    return value


def array(path: str, where: str, value: object) -> list[Json]:
    """Return an array, which is required."""
    if not isinstance(value, list):
        malformed(path, f"{where} must be an array, found {kind_of(value)}")
    return value


def plain_brokers(value: object) -> tuple[int, ...] | None:
    """Return a list of distinct broker ids; None if it is empty or something else, which `brokers` examines."""
    if type(value) is not list or not value or not _INTEGER.issuperset(map(type, value)):
        return None
    is_plausible = min(value) >= 0 and max(value) <= INT32_MAX and len(set(value)) == len(value)
    return tuple(value) if is_plausible else None


def brokers(path: str, where: str, value: object) -> tuple[int, ...]:
    """Return a list of distinct broker ids."""
    if (plain := plain_brokers(value)) is not None:
        return plain
    found = tuple([integer(path, f"a broker id in {where}", item, minimum=0) for item in array(path, where, value)])
    if len(found) > 1 and len(set(found)) != len(found):
        malformed(path, f"{where} names a broker twice: {list(found)[:20]}")
    return found


_INTEGER: Final = frozenset((int,))
_SMALL_NUMBERS: Final = {str(number): number for number in range(1_000)}


def partition_number(path: str, where: str, text: str) -> int:
    """Return the partition number in an object's key."""
    if (known := _SMALL_NUMBERS.get(text)) is not None:
        return known
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or (len(text) > 1 and text[0] == "0"):
        malformed(path, f"{where} has the key {text[:40]!r}, which is no partition number")
    number = int(text)
    if number >= MAX_PARTITIONS:
        malformed(path, f"{where} has partition {text}: a topic has at most {MAX_PARTITIONS:,} partitions here")
    return number
