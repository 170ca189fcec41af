"""Planted bugs about protected topics."""

from __future__ import annotations

from contextlib import AbstractContextManager

from lethe.controller.core import configuration, protection
from tests.simulation.planting import everywhere


def protected_deleted() -> AbstractContextManager[object]:
    """Topics are deleted although a pattern protects them."""
    return everywhere(protection.protected, lambda context, names: ())


def patterns_not_followed() -> AbstractContextManager[object]:
    """The patterns in ZooKeeper are never read."""
    return everywhere(configuration._patterns, lambda step, config, before: (before, None))
