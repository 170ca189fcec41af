"""The two programs of the compose profile `secure`, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

PLACE: Final = Path(__file__).parents[3] / "deploy" / "compose" / "secure"


def program(name: str) -> ModuleType:
    """Return `files` or `users`."""
    spec = importlib.util.spec_from_file_location(f"compose_secure_{name}", PLACE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
