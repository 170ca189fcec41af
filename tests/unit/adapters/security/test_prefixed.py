"""Properties under prefixes, and secrets as values or files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.config_environment import environment_settings
from lethe.adapters.properties import Property, PropertyKind, Values, parse_properties
from lethe.adapters.security.prefixed import PrefixedValues, listener_prefix, with_files

FLAG = Property("a.flag", PropertyKind.BOOLEAN, "false", "…")
COUNT = Property("a.count", PropertyKind.INTEGER, "7", "…", minimum=1)
CHOICE = Property("a.choice", PropertyKind.TEXT, "one", "…", choices=("one", "two"))


def reader(text: str, *prefixes: str, environ: dict[str, str] | None = None) -> PrefixedValues:
    settings, _ = parse_properties(text, "f")
    settings |= environment_settings(environ or {}, ())
    return PrefixedValues(Values({}, settings, []), prefixes or ("",))


def noted(values: PrefixedValues) -> list[str]:
    return [str(problem) for problem in values.values.problems]


def test_the_first_prefix_has_precedence_for_each_property_alone() -> None:
    found = reader("listener.name.one_x.a=1\na=2\nb=3\nlistener.name.one_x.c= \nc=4", listener_prefix("ONE_X"), "")
    assert [(given.text, given.place) for name in "abc" if (given := found.given(name))] == [
        ("1", ("listener.name.one_x.a", "f:1")),
        ("3", ("b", "f:3")),
        ("4", ("c", "f:5")),
    ]
    blank = found.given("c", blank=True)
    assert blank is not None
    assert (blank.text, blank.place.name) == ("", "listener.name.one_x.c")
    assert found.given("d") is None


def test_other_prefixes_do_not_count() -> None:
    assert reader("a=1", "lethe.http.").given("a") is None


def test_defaults_and_wrong_values() -> None:
    found = reader("")
    assert (found.text(CHOICE), found.boolean(FLAG)) == ("one", False)
    found = reader("a.flag=TRUE\na.choice=two")
    assert (found.text(CHOICE), found.boolean(FLAG)) == ("two", True)
    found = reader("a.flag=yes\na.choice=three")
    assert (found.text(CHOICE), found.boolean(FLAG)) == ("one", False)
    assert noted(found) == [
        "f:2: a.choice='three': is not one of the possible values; use one of one, two",
        "f:1: a.flag='yes': is neither true nor false; write true or false",
    ]


def test_a_secret_from_value_file_and_environment(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("from the file\n")
    variables = {"KAFKA_LISTENER_NAME_IN___SIDE_A_PASSWORD": "from the environment", "KAFKA_B_PASSWORD_FILE": str(path)}
    found = reader("a.password= with space ", listener_prefix("in-side"), "", environ=variables)
    (a, b) = found.secret("a.password"), found.secret("b.password")
    assert a is not None
    assert b is not None
    assert (a.secret.reveal(), b.secret.reveal()) == ("from the environment", "from the file")
    assert a.place.origin == "environment variable KAFKA_LISTENER_NAME_IN___SIDE_A_PASSWORD"
    assert b.place == ("b.password.file", "environment variable KAFKA_B_PASSWORD_FILE")
    plain = reader("a.password= with space ").secret("a.password")
    assert plain is not None
    assert plain.secret.reveal() == "with space "
    assert found.secret("c.password") is None
    assert noted(found) == []


def test_a_secret_that_is_given_twice(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("in the file")
    found = reader(f"a.password=here\na.password.file={tmp_path}/p")
    assert found.secret("a.password") is not None
    assert noted(found) == ["f:2: a.password.file: stands beside a.password (f:1); give one of the two"]


def test_a_file_that_gives_no_secret() -> None:
    found = reader("a.password.file=/nowhere/p")
    found.secret("a.password")
    assert noted(found) == [
        "f:1: a.password.file='/nowhere/p': does not exist; name an existing file with its whole path"
    ]


def test_each_secret_has_a_property_for_its_file() -> None:
    props = (Property("a.password", PropertyKind.SECRET, None, "x"), Property("a.key", PropertyKind.TEXT, None, "x"))
    assert [prop.name for prop in with_files(props)] == ["a.password", "a.password.file", "a.key"]


@pytest.mark.parametrize("text", ["1_000", "\uff11\uff12", "1e3", "0x10", "0", "-1"])
def test_a_number_is_what_kafka_takes_for_one(text: str) -> None:
    found = reader(f"a.count={text}")
    assert found.integer(COUNT) == 7
    assert len(noted(found)) == 1


def test_numbers() -> None:
    assert [reader(f"a.count={text}").integer(COUNT) for text in ("12", "+12", " 012 ")] == [12, 12, 12]
