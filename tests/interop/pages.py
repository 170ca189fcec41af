"""Pages of docs/ whose commands tests type as they are written."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.command_line import Lethe, Ran

DOCS = Path(__file__).parents[2] / "docs"


class Page:
    """One page. Each command must stand in it."""

    def __init__(self, name: str) -> None:
        self._text = (DOCS / name).read_text()

    def demand(self, command: str) -> None:
        """Fail where the page does not have this command, up to the end of a line or of the code, or to a comment."""
        ends = ("\n", "`", "  ")
        assert any(f"{command}{end}" in self._text for end in ends), f"the page does not say {command}"

    async def typed(self, lethe: Lethe, command: str, *more: str) -> Ran:
        """Run `lethe COMMAND`, with more options that it needs where nobody sits at a terminal."""
        self.demand(f"lethe {command}")
        return await lethe(*command.split(), *more)
