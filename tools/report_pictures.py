"""Takes the pictures for docs/report.md of a page that `make report` has made.

python -m tools.report_pictures build/report/report.html
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tools.browser import Browser

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"


class Picture(NamedTuple):
    """What to show it in, and how much of the page."""

    name: str
    width: int
    height: int
    of_page: int


PICTURES: Final = (
    Picture("report-desktop.png", 1440, 900, 3000),
    Picture("report-phone.png", 390, 844, 3200),
)


async def take(url: str) -> dict[str, bytes]:
    """Each picture, by its name."""
    async with Browser() as browser:
        made = {}
        for picture in PICTURES:
            await browser.open(url, width=picture.width, height=picture.height)
            made[picture.name] = await browser.screenshot(top=0, height=picture.of_page)
        return made


def write(page: Path, directory: Path = DOCS) -> list[Path]:
    """Takes and writes the pictures; pngquant makes them smaller where it is installed."""
    made = []
    for name, content in asyncio.run(take(page.resolve().as_uri())).items():
        path = directory / name
        path.write_bytes(content)
        made.append(path)
    pngquant = shutil.which("pngquant")
    if pngquant is not None:
        subprocess.run([pngquant, "--force", "--ext", ".png", "--speed", "1", *map(str, made)], check=True)
    return made


def main(arguments: Sequence[str]) -> int:
    """Exit code 2 where there is no such page: Chromium would show a picture of its complaint."""
    if len(arguments) != 1 or not (page := Path(arguments[0])).is_file():
        print(
            f"there is no page {' '.join(arguments) or 'named'}: give the one that `make report` wrote", file=sys.stderr
        )
        return 2
    for written in write(page):
        print(f"{written}: {written.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
