"""Properties that stand under several prefixes, such as those that a listener overrides.

`ssl.keystore.location` holds for all listeners. `listener.name.internal.ssl.keystore.location` holds for listener
INTERNAL and has precedence there, each property for itself. A secret may be given as a value or as `<name>.file`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from lethe.adapters.config_environment import Setting
from lethe.adapters.properties import MAX_INT, Problem, Property, PropertyKind, Values, whole_number
from lethe.adapters.security.config_exposure import warn_of_exposure
from lethe.adapters.security.secrets import FileSecret, Secret
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.kafka.config_values import parse_boolean

FILE_SUFFIX: Final = ".file"


class Place(NamedTuple):
    """A property's whole name, and the origin of its value."""

    name: str
    origin: str
    """As in `adapters.config_environment.Setting`."""


class PlacedSecret(NamedTuple):
    """A secret, and the property that gives it: `<name>` or `<name>.file`."""

    secret: Secret
    place: Place


class Given(NamedTuple):
    """A value that is given, and its place."""

    text: str
    place: Place


def listener_prefix(listener: str) -> str:
    """Return the prefix of the properties that hold for the listener alone."""
    return f"listener.name.{listener.lower()}."


def mechanism_prefix(listener: str, mechanism: str) -> str:
    """Return the prefix of the properties that hold for one SASL mechanism of the listener."""
    return f"{listener_prefix(listener)}{mechanism.lower()}."


class PrefixedValues:
    """The values of properties under prefixes; the first prefix that gives one has precedence.

    Problems are noted in `values`, whose schema need not have the properties.
    """

    def __init__(self, values: Values, prefixes: tuple[str, ...]) -> None:
        self.values = values
        self.prefixes = prefixes

    def given(self, name: str, *, blank: bool = False) -> Given | None:
        """Return the value without surrounding space. Blank ones count as missing, unless `blank`."""
        for full, setting in self._settings(name):
            if setting.value.strip() or blank:
                return Given(setting.value.strip(), Place(full, setting.origin))
        return None

    def text(self, prop: Property, *, blank: bool = False) -> str:
        """Return the value, or else the property's default. Notes a value that is none of the property's choices."""
        found = self.given(prop.name, blank=blank)
        if found is None:
            return prop.default or ""
        if prop.choices and found.text not in prop.choices:
            self.wrong(found, "is not one of the possible values", "use one of " + ", ".join(prop.choices))
            return prop.default or ""
        return found.text

    def boolean(self, prop: Property) -> bool:
        """Return the value, or else the property's default. Notes a value that is neither true nor false."""
        value = parse_boolean(self.text(prop))
        if value is None and (found := self.given(prop.name)) is not None:
            self.wrong(found, "is neither true nor false", "write true or false")
        return value is True

    def integer(self, prop: Property) -> int:
        """Return the number, or else the property's default. Notes one that is out of the property's bounds."""
        default = int(prop.default or 0)
        given = self.given(prop.name)
        if given is None:
            return default
        low, high = prop.minimum or 0, MAX_INT if prop.maximum is None else prop.maximum
        number = whole_number(given.text)
        if number is None or not low <= number <= high:
            self.wrong(given, "is no number that is possible here", f"write a whole number from {low} to {high}")
            return default
        return number

    def secret(self, name: str) -> PlacedSecret | None:
        """Return the secret. Notes one that is given twice, and a file that cannot be read."""
        for prefix in self.prefixes:
            value = self._setting(prefix + name)
            file = self._setting(prefix + name + FILE_SUFFIX)
            if value is not None and file is not None:
                reason = f"stands beside {prefix}{name} ({value.origin})"
                self._note(Place(prefix + name + FILE_SUFFIX, file.origin), None, reason, "give one of the two")
            if file is not None:
                return self._read(FileSecret(Path(file.value.strip())), Place(prefix + name + FILE_SUFFIX, file.origin))
            if value is not None:
                return PlacedSecret(Secret(value.value), Place(prefix + name, value.origin))
        return None

    def wrong(self, given: Given, reason: str, remedy: str) -> None:
        """Note a problem with a value that may be shown."""
        self._note(given.place, given.text, reason, remedy)

    def wrong_place(self, place: Place, reason: str, remedy: str) -> None:
        """Note a problem with a property, without its value."""
        self._note(place, None, reason, remedy)

    def warn_of_exposure(self, place: Place, path: Path) -> None:
        """Warn if every user of the machine may read or write the file, which has a secret."""
        warn_of_exposure(self.values, place.name, place.origin, path)

    def _read(self, secret: FileSecret, place: Place) -> PlacedSecret:
        try:
            secret.reveal()
        except Unusable as error:
            self._note(place, str(secret.path), error.reason, error.remedy)
        self.warn_of_exposure(place, secret.path)
        return PlacedSecret(secret, place)

    def _settings(self, name: str) -> Iterator[tuple[str, Setting]]:
        for prefix in self.prefixes:
            if (setting := self.values.settings.get(prefix + name)) is not None:
                yield prefix + name, setting

    def _setting(self, full: str) -> Setting | None:
        setting = self.values.settings.get(full)
        return setting if setting is not None and setting.value.strip() else None

    def _note(self, place: Place, shown: str | None, reason: str, remedy: str) -> None:
        self.values.problems.append(Problem(place.name, place.origin, shown, reason, remedy))


def with_files(props: tuple[Property, ...]) -> tuple[Property, ...]:
    """Return the properties; after each secret follows the property that names a file with it."""
    found: list[Property] = []
    for prop in props:
        found.append(prop)
        if prop.kind is PropertyKind.SECRET:
            doc = f"A file that holds `{prop.name}` instead; the end of its line does not count."
            found.append(Property(prop.name + FILE_SUFFIX, PropertyKind.TEXT, None, doc))
    return tuple(found)
