"""Numbers for values: equal values get the same number, so that a state of the world is a tuple of small numbers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class Numbers(Generic[V]):
    """Values met so far, numbered from 0 in the order in which they came."""

    def __init__(self) -> None:
        self.values: list[V] = []
        self._numbers: dict[V, int] = {}

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, number: int) -> V:
        return self.values[number]

    def of(self, value: V) -> int:
        """Return the value's number, a new one if the value is new."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number
