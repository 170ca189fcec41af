"""For all tests: how much hypothesis searches, which tests stay together in one of several test processes, and that
none depends on the terminal or the shell that it is run in.

`HYPOTHESIS_PROFILE=search` looks at more, and at new examples.
"""

from __future__ import annotations

import os
import signal
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

TERMINAL: Final = ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "NO_COLOR", "GITHUB_ACTIONS", "COLUMNS", "LINES")
"""What commands print depends on these, in the tests' process and in those that it starts."""

for name in TERMINAL:
    os.environ.pop(name, None)

# A shell without job control starts background jobs with SIGINT ignored. The processes of tests would inherit that, and
# a test that interrupts one would wait for its end until the time limit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("quick", max_examples=60, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "search", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

TOGETHER: Final = "tests/pipeline/"
"""These share one Spark session, which takes seconds to start and a gigabyte to keep."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the pipeline's tests and the slow ones first: what takes longest must not begin last."""
    items.sort(key=lambda item: (not item.nodeid.startswith(TOGETHER), item.get_closest_marker("slow") is None))


class _ByFile(LoadFileScheduling):  # type: ignore[misc]
    """A test process takes whole files in the order of collection. One process takes all of the pipeline's tests."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if nodeid.startswith(TOGETHER) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # it would begin the files of few tests last, however long they take
    return _ByFile(config, log)
