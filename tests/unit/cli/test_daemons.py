"""What daemons do before they run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_daemon_does_without_hypothesis_and_its_memory(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from lethe.cli.daemons import without_hypothesis\n"
        "from lethe.protocol.kafka.codec import preload\n"
        "with without_hypothesis():\n"
        "    preload()\n"
        "assert not [name for name in sys.modules if name.startswith('hypothesis.')]\n"
        "import hypothesis\n"
        "assert hypothesis.strategies\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=True, timeout=60)
