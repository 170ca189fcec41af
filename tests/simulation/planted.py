"""Bugs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

BUGS: dict[str, Callable[[], AbstractContextManager[object]]] = {}
