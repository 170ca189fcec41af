from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from lethe.protocol.kafka.codec_layout import Shape, compile_layout, fixed_offset
from lethe.protocol.kafka.codec_primitives import Layout, Malformed, Unencodable


@dataclass
class Part:
    __flexible__: ClassVar[bool] = True
    number: int = field(metadata={"kafka_type": "int16"})


@dataclass
class Message:
    """A schema as kio writes them: two numbers around a text, an array, and a tagged field."""

    __flexible__: ClassVar[bool] = True
    first: int = field(metadata={"kafka_type": "int32"})
    text: str = field(metadata={"kafka_type": "string"})
    second: bool = field(metadata={"kafka_type": "bool"}, default=True)
    parts: tuple[Part, ...] = ()
    extra: int = field(metadata={"kafka_type": "int8", "tag": 3}, default=9)


def row(*items: Any) -> tuple[Any, ...]:
    return items


PART = Shape(row, ("number",))
ALL = ("first", "text", "second", "parts", "extra")


def layout(*names: str, defaults: tuple[Any, ...] = (), constants: dict[str, Any] | None = None) -> Layout:
    return compile_layout(Message, {"Message": Shape(row, names, defaults, constants or {}), "Part": PART})


def written(made: Layout, item: Any) -> bytes:
    chunks: list[bytes] = []
    made.write(item, chunks.append)
    return b"".join(chunks)


def test_fields_lie_in_the_schemas_order() -> None:
    data = written(layout(*ALL), (1, "ab", False, [(5,)], 7))
    assert data == bytes.fromhex("00000001 03 6162 00 02 0005 00 01 03 01 07")
    assert layout(*ALL).read(data, 0) == ((1, "ab", False, ((5,),), 7), len(data))


def test_items_may_be_in_another_order_than_the_schemas() -> None:
    made = layout("extra", "parts", "text", "second", "first")
    data = written(made, (7, [], "", True, 1))
    assert data == bytes.fromhex("00000001 01 01 01 01 03 01 07")
    assert made.read(data, 0) == ((7, (), "", True, 1), len(data))


def test_a_tagged_field_with_its_default_does_not_travel() -> None:
    data = written(layout(*ALL), (1, "", True, [], 9))
    assert data == bytes.fromhex("00000001 01 01 01 00")
    assert layout(*ALL).read(data, 0) == ((1, "", True, (), 9), len(data))


def test_what_a_shape_does_not_name_is_skipped_and_written_as_constant_or_default() -> None:
    made = layout("text", constants={"first": 6, "parts": ()})
    data = written(made, ("ab",))
    assert data == bytes.fromhex("00000006 03 6162 01 01 00")
    assert made.read(bytes.fromhex("00000001 03 6162 00 01 01 03 01 07"), 0) == (("ab",), 13)


def test_what_the_schema_lacks_has_the_shapes_default_and_is_not_written() -> None:
    made = layout(*ALL, "newer", defaults=(44,))
    data = written(made, (1, "", True, [], 9, 55))
    assert data == written(layout(*ALL), (1, "", True, [], 9))
    assert made.read(data, 0)[0] == (1, "", True, (), 9, 44)


def test_a_shape_that_leaves_something_open_is_refused_when_compiled() -> None:
    with pytest.raises(LookupError, match="no default for newer"):
        layout(*ALL, "newer")
    with pytest.raises(LookupError, match="says nothing about first"):
        layout("text")
    with pytest.raises(KeyError, match="Part"):
        compile_layout(Message, {"Message": Shape(row, ALL)})


def test_a_schema_with_an_unknown_type_is_refused_when_compiled() -> None:
    @dataclass
    class Odd:
        __flexible__: ClassVar[bool] = False
        weight: float = field(metadata={"kafka_type": "float64"})

    with pytest.raises(LookupError, match="field weight: no layout for float64"):
        compile_layout(Odd, {"Odd": Shape(row, ("weight",))})


def test_null_is_refused_where_the_schema_allows_none() -> None:
    with pytest.raises(Unencodable, match="null, where the version at hand needs a text"):
        written(layout(*ALL), (1, None, True, [], 9))
    with pytest.raises(Unencodable, match="needs an array"):
        written(layout(*ALL), (1, "", True, None, 9))
    with pytest.raises(Malformed, match="null at offset 4"):
        layout(*ALL).read(bytes.fromhex("00000001 00 01 01 00"), 0)


def test_an_arrays_length_is_checked_against_what_its_items_need_at_least() -> None:
    assert layout(*ALL).min_bytes == 4 + 1 + 1 + 1 + 1
    with pytest.raises(
        Malformed, match="an array of 2 items of at least 3 bytes is announced at offset 7, 5 bytes are"
    ):
        layout(*ALL).read(bytes.fromhex("00000001 01 01 03 0000000000"), 0)


def test_the_place_of_a_field_behind_fields_of_fixed_size() -> None:
    assert fixed_offset(Message, "first") == 0
    assert fixed_offset(Message, "text") == 4
    assert fixed_offset(Message, "nowhere") is None
    with pytest.raises(LookupError, match="Message.second has no fixed place: text comes before it"):
        fixed_offset(Message, "second")
