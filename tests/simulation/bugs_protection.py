"""Planted bugs about protected topics, and about the pace of deletions."""

from __future__ import annotations

from contextlib import AbstractContextManager

from lethe.controller.core import configuration, pace, protection
from lethe.controller.core.pace_memory import Bucket
from tests.simulation.planting import everywhere, method


def protected_deleted() -> AbstractContextManager[object]:
    """Topics are deleted although a pattern protects them."""
    return everywhere(protection.protected, lambda context, names: ())


def patterns_not_followed() -> AbstractContextManager[object]:
    """The patterns in ZooKeeper are never read."""
    return everywhere(configuration._patterns, lambda step, config, before: (before, None))


def pace_forgotten_at_the_timer() -> AbstractContextManager[object]:
    """The turn of a held deletion comes, and nothing is done."""
    return everywhere(pace.go_on, lambda step: None)


def bucket_always_full() -> AbstractContextManager[object]:
    """Any number of deletions may begin at once."""
    return method(Bucket, "wait_ms", lambda self, cost, rate: 0)


def turn_not_noted() -> AbstractContextManager[object]:
    """A deletion begins without a note in its marker, so that the next controller holds it back."""
    return everywhere(pace.to_note, lambda context, names, begun: {})
