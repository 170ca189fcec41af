"""For all tests: how much hypothesis searches, which tests stay together in one of several test processes, and that
none knows the terminal that it is run in.

`HYPOTHESIS_PROFILE=search` looks at more, and at new examples.
"""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

TERMINAL: Final = ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "NO_COLOR", "GITHUB_ACTIONS", "COLUMNS", "LINES")
"""What commands print depends on these, in the tests' process and in those that it starts."""

for name in TERMINAL:
    os.environ.pop(name, None)

settings.register_profile("quick", max_examples=60, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "search", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

TOGETHER: Final = "tests/pipeline/"
"""These share one Spark session, which takes seconds to start and a gigabyte to keep."""


class _ByFile(LoadFileScheduling):  # type: ignore[misc]
    """A test process takes whole files, and the pipeline's tests are taken by one process. Being the largest lot, they
    are begun first, so that the other processes do the rest meanwhile."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if nodeid.startswith(TOGETHER) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    return _ByFile(config, log) if config.getvalue("dist") == "loadfile" else None
