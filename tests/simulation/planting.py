"""How a bug is planted: a function of the cores is replaced for as long as a run takes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def everywhere(function: Callable[..., Any], instead: Callable[..., Any]) -> Iterator[None]:
    """Replace a function in every module of the cores that knows it."""
    holders = [
        (module, name)
        for path, module in list(sys.modules.items())
        if path.startswith(("lethe.controller.core", "lethe.broker.core"))
        for name, value in list(vars(module).items())
        if value is function
    ]
    for module, name in holders:
        setattr(module, name, instead)
    try:
        yield
    finally:
        for module, name in holders:
            setattr(module, name, function)


@contextmanager
def method(owner: type | ModuleType, name: str, instead: Callable[..., Any]) -> Iterator[None]:
    """Replace a method of a class, or a function that only its own module calls."""
    original = getattr(owner, name)
    setattr(owner, name, instead)
    try:
        yield
    finally:
        setattr(owner, name, original)
