"""How many connections a process can take. In a process of its own, whose limits are lowered."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import logging, resource, sys
from lethe.adapters.descriptors import connections_that_fit
logging.basicConfig(stream=sys.stderr)
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(connections_that_fit({wanted}), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    "soft, hard, wanted, fit, raised, told",
    [
        (900, 900, 10, 10, 900, False),
        (900, 900, 10_000, 450, 900, True),
        (900, 2_000, 1_000, 1_000, 1_512, False),
        (900, 2_000, 10_000, 1_488, 2_000, True),
    ],
)
def test_no_more_than_the_process_may_open(
    soft: int, hard: int, wanted: int, fit: int, raised: int, told: bool
) -> None:
    script = SCRIPT.format(soft=soft, hard=hard, wanted=wanted)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == [str(fit), str(raised)]
    assert ("connections at most" in done.stderr) is told
