"""Takes the pictures for docs/report.md of a page that `make report` has made.

python -m tools.report_pictures build/report/report.html
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
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


if __name__ == "__main__":
    for written in write(Path(sys.argv[1])):
        print(f"{written}: {written.stat().st_size:,} bytes")
