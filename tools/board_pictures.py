"""Takes the pictures for docs/board.md of a board with 1,000 topics in deletion.

python -m tools.board_pictures [DIRECTORY]
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tests.fakes.board_scene import busy_scene
from tools.browser import Browser

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
EXPLAIN: Final = (
    "document.querySelector('.c-started .card.group.waits').click();"
    "document.querySelector('.c-started .card.waits:not(.group)').click()"
)


class Picture(NamedTuple):
    """What to show it in; `does` is what somebody has done on the page before."""

    name: str
    width: int
    height: int
    whole: bool
    dark: bool = False
    does: str | None = None


PICTURES: Final = (
    Picture("board-desktop.png", 1440, 900, whole=True),
    Picture("board-dark.png", 1440, 900, whole=False, dark=True),
    Picture("board-explain.png", 960, 620, whole=False, does=EXPLAIN),
    Picture("board-phone.png", 390, 844, whole=True),
)


async def take() -> dict[str, bytes]:
    """Each picture, by its name."""
    made = {}
    async with busy_scene() as scene, Browser() as browser:
        for picture in PICTURES:
            await browser.open(scene.url, width=picture.width, height=picture.height, dark=picture.dark)
            await _until(browser, "document.querySelectorAll('.c-started .card.group.waits').length > 0")
            if picture.does is not None:
                await browser.evaluate(picture.does)
                await _until(browser, "document.querySelectorAll('#explain-body .causes li').length > 0")
            await _until(browser, "document.getAnimations().every(each => each.playState === 'finished')")
            made[picture.name] = await browser.screenshot(whole=picture.whole)
    return made


async def _until(browser: Browser, expression: str) -> None:
    async with asyncio.timeout(20):
        while not await browser.evaluate(expression):  # noqa: ASYNC110 — the condition is another process's
            await asyncio.sleep(0.05)


def write(directory: Path = DOCS) -> list[Path]:
    """Takes and writes the pictures; pngquant makes them smaller where it is installed."""
    made = []
    for name, content in asyncio.run(take()).items():
        path = directory / name
        path.write_bytes(content)
        made.append(path)
    pngquant = shutil.which("pngquant")
    if pngquant is not None:
        subprocess.run([pngquant, "--force", "--ext", ".png", "--speed", "1", *map(str, made)], check=True)
    return made


if __name__ == "__main__":
    for written in write(*map(Path, sys.argv[1:2])):
        print(f"{written}: {written.stat().st_size:,} bytes")
