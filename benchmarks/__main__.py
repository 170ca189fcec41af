"""`python -m benchmarks [NAME ...]`: runs the named benchmarks of this directory, or all of them, one after the other.

A benchmark is a module with a `main` that takes a list of arguments; run by itself (`python -m benchmarks.wire`) it
takes options of its own.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence

import benchmarks


def names() -> list[str]:
    """Return the names of all benchmarks, sorted."""
    return sorted(
        module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_")
    )


def main(wanted: Sequence[str]) -> int:
    """Run the named benchmarks; return the exit code, 2 for an unknown name."""
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)} (there are: {', '.join(names())})", file=sys.stderr)
        return 2
    for name in wanted or names():
        module = importlib.import_module(f"benchmarks.{name}")
        if not hasattr(module, "main"):
            continue
        print(f"== {name}", flush=True)
        module.main([])
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
