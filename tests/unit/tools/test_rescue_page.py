"""The page of rescues, from stories."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lethe.protocol.causes import CauseKind
from tools import rescue_page

STORIES = [
    {
        "title": "A broker that does not return",
        "version": version,
        "steps": [
            {"what": "Told", "text": "broker 4 was killed"},
            {"what": "For 10 s nothing moves", "text": "dead: marker\n" + "x" * 300},
            {"what": "$ lethe rescue --yes", "text": "dead remains\n(exit code 1)"},
        ],
    }
    for version in ("2.5.1", "3.9.1")
]


def test_the_newest_version_is_told_and_the_others_are_named() -> None:
    text = rescue_page.page(STORIES)
    assert text.count("## A broker that does not return") == 1
    assert "Kafka 3.9.1. Kafka 2.5.1 went the same way." in text
    assert "\nBroker 4 was killed.\n" in text
    assert "    $ lethe rescue --yes\n    dead remains\n    (exit code 1)\n" in text
    assert max(map(len, text.splitlines())) <= 4 + rescue_page.WIDTH + 2


def test_some_stories_are_told_in_order() -> None:
    first, last = rescue_page.ORDER[0], rescue_page.ORDER[-1]
    stories = [{"title": title, "version": "3.9.1", "steps": []} for title in ("Another", last, first)]
    text = rescue_page.page(stories)
    assert text.index(f"## {first}") < text.index(f"## {last}")
    assert "## Another" not in text


def test_nothing_is_written_where_there_is_nothing_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "rescue.md"
    monkeypatch.setattr(rescue_page, "PAGE", page)
    assert rescue_page.main([str(tmp_path)]) == 1
    assert not page.exists()
    assert "no stories" in capsys.readouterr().err


def test_the_page_gives_causes_and_advice_in_the_words_of_today() -> None:
    """Where it does not, `make rescue-page` makes it again."""
    told = re.findall(r"^ {8}(.+) -> (.+)$", rescue_page.PAGE.read_text(), re.MULTILINE)
    assert len(told) > 10
    unknown = [
        (said, advice)
        for said, advice in told
        if not any(fits(kind.value.sentence, said) and fits(kind.value.remedy, advice) for kind in CauseKind)
    ]
    assert unknown == []


def fits(template: str, text: str) -> bool:
    """Whether that was made of the template; the page cuts what is long."""
    cut = text.removesuffix(" …")
    ends = [len(template)] if cut == text else range(len(template))
    return any(re.fullmatch(re.sub(r"\\{\w+\\}", ".*", re.escape(template[:end])), cut) for end in ends)
