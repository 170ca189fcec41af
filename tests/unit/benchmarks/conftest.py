"""Benchmarks collect garbage between their phases, here in a process that holds all tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _only_new_objects_are_collected() -> Iterator[None]:
    """Exclude what exists before the test from collections: with 3,600 tests in memory each one takes 0.13 s."""
    gc.freeze()
    yield
    gc.unfreeze()
