"""Try every attack on running daemons, and print what happened.

python -m tests.attacks [--json] [--only TEXT] [--record]

Exit code 1: an attack succeeded, nothing was proven, or something else happened than docs/attacks.json has. `--record`
writes these attacks' rows into that file, and docs/attacks.md; it does so only if all of them were refused.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from tests.attacks.attack import Row, Verdict, tried
from tests.attacks.table import ATTACKS, deviations, lines, record, recorded
from tests.attacks.world import running
from tools import docs


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def rows_of(only: str, *, quiet: bool) -> list[Row]:
    """Try the attacks whose subject or text has `only` in it."""
    chosen = [each for each in ATTACKS if only in f"{each.subject}: {each.sent}"]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="lethe-attacks-") as directory:
        async with running(Path(directory)) as world:
            for attack in chosen:
                rows.append(await tried(attack, world))
                if not quiet:
                    sys.stderr.write(f"{rows[-1].verdict:9} {attack.subject}: {attack.sent}\n")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--only", default="", help="only attacks whose subject or text has this in it")
    parser.add_argument("--record", action="store_true", help="write docs/attacks.json and docs/attacks.md")
    arguments = parser.parse_args()
    rows = asyncio.run(rows_of(arguments.only, quiet=arguments.json))
    if arguments.json:
        say(json.dumps([row.document() for row in rows], indent=1, ensure_ascii=False))
    else:
        say("\n".join(lines(rows)))
    if arguments.record and all(row.verdict == Verdict.REFUSED.value for row in rows):
        record(rows)
        docs.write(next(page for page in docs.PAGES if page.path == "docs/attacks.md"))
    found = list(deviations(rows, recorded()))
    for sentence in found:
        sys.stderr.write(f"{sentence}\n")
    sys.stderr.write(f"{len(rows)} attacks, {len(found)} with another result than docs/attacks.md has\n")
    return 1 if found or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
