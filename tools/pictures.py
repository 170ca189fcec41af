"""Take the pictures of docs/: of a board with 1,000 topics in deletion, of a report that `make report` made, or of the
trends of five weeks.

python -m tools.pictures board
python -m tools.pictures build/report/report.html
python -m tools.pictures trends
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from lethe.pipeline.report.page import page
from lethe.pipeline.report.read import read_report
from tests.fakes.board_scene import busy_scene
from tests.fakes.weeks_lake import write_weeks
from tools.browser import open_page, until

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
GROUP: Final = "document.querySelector('.c-started .card.group.waits')"
EXPLAIN: Final = f"{GROUP}.click(); document.querySelector('.c-started .card.waits:not(.group)').click()"
EXPLAINED: Final = "document.querySelector('#explain-body .causes li')"
STILL: Final = "document.getAnimations().every(each => each.playState === 'finished')"


class Picture(NamedTuple):
    """A window, and how much of the page is taken: `height` where `of_page` is None."""

    name: str
    width: int
    height: int
    of_page: int | None = None
    dark: bool = False
    is_whole: bool = False
    explains: bool = False
    """Whether a topic that waits is clicked before."""
    of_element: str | None = None
    """Selector of the element that is taken alone."""


BOARD: Final = (
    Picture("board-desktop.png", 1440, 900, is_whole=True),
    Picture("board-dark.png", 1440, 900, dark=True),
    Picture("board-explain.png", 960, 620, explains=True),
    Picture("board-phone.png", 390, 844, is_whole=True),
)
REPORT: Final = (
    Picture("report-desktop.png", 1440, 900, of_page=3000),
    Picture("report-phone.png", 390, 844, of_page=3200),
)
TRENDS: Final = Picture("report-trends.png", 1280, 900, of_element="#trends")


async def take_board() -> list[Path]:
    """Take those of the board."""
    async with busy_scene() as scene:
        return [await _take(picture, scene.url, is_board=True) for picture in BOARD]


async def take_report(url: str) -> list[Path]:
    """Take those of that report."""
    return [await _take(picture, url) for picture in REPORT]


async def take_trends() -> list[Path]:
    """Take that of the trends, of a lake with gaps of every kind."""
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "report.html"
        made.write_text(page(read_report(str(write_weeks(Path(directory) / "lake")))), encoding="utf-8")
        return [await _take(TRENDS, made.as_uri())]


async def _take(picture: Picture, url: str, is_board: bool = False) -> Path:
    """Write the picture and return its path."""
    path = DOCS / picture.name
    async with open_page(url, width=picture.width, height=picture.height, dark=picture.dark) as view:
        if is_board:
            await until(view.page, GROUP)
        if picture.explains:
            await view.page.evaluate(EXPLAIN)
            await until(view.page, EXPLAINED)
        await until(view.page, STILL)
        if picture.of_element is not None:
            await view.page.locator(picture.of_element).screenshot(path=path)
        elif picture.of_page is None:
            await view.page.screenshot(path=path, full_page=picture.is_whole)
        else:
            await view.page.screenshot(
                path=path, full_page=True, clip={"x": 0, "y": 0, "width": picture.width, "height": picture.of_page}
            )
    return path


def main(arguments: Sequence[str]) -> int:
    """Exit code 2 where there is no such page. pngquant makes the files smaller where it is installed."""
    if list(arguments) == ["board"]:
        made = asyncio.run(take_board())
    elif list(arguments) == ["trends"]:
        made = asyncio.run(take_trends())
    elif len(arguments) == 1 and (report := Path(arguments[0])).is_file():
        made = asyncio.run(take_report(report.resolve().as_uri()))
    else:
        named = " ".join(arguments) or "named"
        known = "`board`, `trends`, or the page that `make report` wrote"
        print(f"there is no page {named}: give {known}", file=sys.stderr)
        return 2
    if (pngquant := shutil.which("pngquant")) is not None:
        subprocess.run([pngquant, "--force", "--ext", ".png", "--speed", "1", *map(str, made)], check=True)
    for path in made:
        print(f"{path}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
