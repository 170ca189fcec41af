"""Makes docs/alerts.md from what `tests/integration/test_alerts_fire.py` kept: `make alerts` runs both."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "alerts.md"
UNPROVOKED: Final = frozenset({"LetheControllerFault"})
"""Its causes are bugs, and those that we know are mended."""
HEAD: Final = """\
# Every alert, fired once

`make alerts` made this page: it starts two controllers, three agents, a real ZooKeeper and a real Prometheus that
scrapes them each second, brings about the cause of each alert of `deploy/prometheus/alerts` in turn, and keeps what the
alert said. So that it takes minutes, alerts fire after a second instead of after what their `for` says, and some
thresholds are lower; the causes are real. A topic is deleted by creating its marker in ZooKeeper, as `lethe topics
delete` does. Wording and thresholds have unit tests of their own (`make deploy-check`).
What to do about each: [runbook.md](runbook.md). LetheControllerFault is not among them: its cause is a bug.

| Alert | Severity | What was done | What it said |
|---|---|---|---|
"""


def page(said: Mapping[str, Mapping[str, str]]) -> str:
    """The page as Markdown; `said` is what was kept, by alert."""
    return HEAD + "".join(map(_row, said.items()))


def _row(item: tuple[str, Mapping[str, str]]) -> str:
    name, told = item
    words = f"**{_cell(told['summary'])}.** {_cell(told['description'])}"
    return f"| [{name}](runbook.md#{name.lower()}) | {told['severity']} | {_cell(told['done'])} | {words} |\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def main(arguments: Sequence[str]) -> int:
    """`python -m tools.alerts_page KEPT.json`."""
    PAGE.write_text(page(json.loads(Path(arguments[0]).read_text())))
    print(f"{PAGE.name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
