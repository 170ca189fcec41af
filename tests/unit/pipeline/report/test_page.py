"""The page in all its states; nothing that comes from outside gets into it as HTML."""

from __future__ import annotations

import html.parser
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lethe.pipeline import tables
from lethe.pipeline.report import deletion_data
from lethe.pipeline.report.page import page
from lethe.pipeline.report.read import read_report
from lethe.pipeline.report.values import Deletions, Report, Rows
from lethe.protocol.lake import encode_identity
from tests.fakes.lakes import write
from tests.fakes.report_lake import BEGAN_MS, span, write_lake

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&\u202e"
SECTIONS = [
    "stuck",
    "leftovers",
    "progress",
    "trends",
    "timelines",
    "latency",
    "reclaimed",
    "owed",
    "brokers",
    "controllers",
    "candidates",
    "audit",
    "quarantine",
]


class Reader(html.parser.HTMLParser):
    """Elements, as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br", "input", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def scripts(self) -> int:
        """How many elements may run; one of another type only holds data."""
        return sum(each.get("type") is None for each in self.named("script"))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def made(lake: Path) -> str:
    return page(read_report(str(lake)))


def test_everything_is_on_the_page(tmp_path: Path) -> None:
    text = made(write_lake(tmp_path))
    reader = Reader(text)
    assert not reader.open
    assert [each["id"] for each in reader.named("section")] == SECTIONS
    for said in (
        "waits for broker 3",
        "lethe explain audit-log",
        "/d1/forgotten-0",
        "metrics-2023",
        "bytes_match_inventory",
        "3 debts: 1 open, 1 paid, 1 written off.",
        "audit-2022",
        "finance",
    ):
        assert said in text
    assert "61 deletions, 60 done, 1 stuck, 2 left over, 1 set aside" in text


def test_nothing_is_owed_and_the_trash_is_empty(tmp_path: Path) -> None:
    write(tmp_path, tables.DELETION_SPANS, [span(1, BEGAN_MS)])
    assert "No debts.</p>" in made(tmp_path)
    assert "No topic is in the trash." in made(tmp_path)


def test_hostile_values_stay_text(tmp_path: Path) -> None:
    calm = Reader(made(write_lake(tmp_path / "calm", 30)))
    text = made(write_lake(tmp_path / "hostile", 30, name=lambda usual: HOSTILE + usual))
    reader = Reader(text)
    assert reader.scripts() == 1
    assert not reader.named("img")
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    assert "\u202e" not in text
    assert {tag for tag, _ in reader.tags} == {tag for tag, _ in calm.tags}


def test_a_hostile_title_stays_text() -> None:
    reader = Reader(page(Report(title=HOSTILE, lake=HOSTILE)))
    assert reader.scripts() == 1
    assert not reader.named("img")


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    text = made(write_lake(tmp_path))
    assert not re.search(r"https?://|@import|url\((?!#(?:hatch|unseen)\))", text)
    policies = [each["content"] for each in Reader(text).named("meta") if each.get("http-equiv")]
    assert policies[0] is not None
    assert policies[0].startswith("default-src 'none'; style-src 'sha256-")


def test_the_same_lake_gives_the_same_bytes(tmp_path: Path) -> None:
    write_lake(tmp_path)
    assert made(tmp_path) == made(tmp_path)


def test_plots_are_named_and_have_tables_beside_them(tmp_path: Path) -> None:
    reader = Reader(made(write_lake(tmp_path)))
    pictures = [each for each in reader.named("svg") if each.get("role") == "img"]
    assert pictures
    text = made(tmp_path)
    assert len(re.findall(r'role="img"[^>]*><title>[^<]', text)) == len(pictures)
    for one in re.findall(r"<figure>.*?</figure>", text, re.DOTALL):
        assert "<table" in one
        assert "<caption>" in one
        assert 'scope="row"' in one


def test_thousands_of_deletions_make_a_page_of_bounded_size_that_says_what_it_leaves_out(tmp_path: Path) -> None:
    rows = [span(number, BEGAN_MS, topic="&" * 245 + f"{number:04d}", waits=True) for number in range(3_000)]
    write(tmp_path, tables.DELETION_SPANS, rows)
    text = made(tmp_path)
    assert len(text.encode()) < 2_000_000
    left_out = "200 of 3\u202f000 deletions shown: those still open, then those that took longest."
    assert f"{left_out} With JavaScript the page shows all.</p>" in text
    assert "The lake has the other" not in text


def test_what_does_not_fit_the_page_is_counted_and_said_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion_data, "MAX_CHARS", 20_000)
    write(tmp_path, tables.DELETION_SPANS, [span(number, BEGAN_MS, waits=True) for number in range(3_000)])
    text = made(tmp_path)
    (found,) = re.findall(r'id="deletion-data">([^<]*)<', text)
    assert 10_000 < len(found) <= 20_000
    (many, rest) = re.findall(
        r"([\d\u202f]+) of 3\u202f000 deletions shown: .*? The lake has the other ([\d\u202f]+):", text
    )[-1]
    assert int(many.replace("\u202f", "")) + int(rest.replace("\u202f", "")) == 3_000
    assert f"lethe pipeline show deletion_spans --lake {tmp_path} --limit 3000" in text


def test_an_empty_lake_says_how_it_fills(tmp_path: Path) -> None:
    (tmp_path / "lake.json").write_text(encode_identity(None))
    text = made(tmp_path)
    assert "Nothing is recorded in this lake yet." in text
    assert "lethe pipeline run" in text


def test_a_lake_without_deletions_still_says_what_the_survey_found(tmp_path: Path) -> None:
    full = read_report(str(write_lake(tmp_path)))
    text = page(replace(full, deletions=Deletions(), stuck=Rows(), violations=Rows(), violations_by_rule={}))
    assert "No deletions, 2 left over, 1 set aside" in text
    assert "No deletion was recorded." in text


@pytest.mark.parametrize("outcome", ["done", "let go", "vanished", "open"])
def test_one_deletion(tmp_path: Path, outcome: str) -> None:
    one = span(1, BEGAN_MS) | {"outcome": outcome}
    if outcome != "done":
        one |= dict.fromkeys(("done_at", "znodes_gone_at", "bytes_gone_at", "deleted_ms", "reclaimed_ms"))
    write(tmp_path, tables.DELETION_SPANS, [one])
    text = made(tmp_path)
    said = {
        "done": "1 deletion, done",
        "let go": "1 deletion, 0 done, 1 let go",
        "vanished": "1 deletion, 0 done, 1 vanished",
        "open": "1 deletion, 0 done, 1 under way",
    }
    assert said[outcome] in text
    assert "All times of this deletion" in text
    assert ("1 deletion has vanished: another process removed" in text) == (outcome == "vanished")


def test_a_row_that_is_all_null_does_no_harm(tmp_path: Path) -> None:
    for table in tables.TABLES.values():
        write(tmp_path, table, [{"day": span(1, BEGAN_MS)["day"]}])
    assert "1 deletion" in made(tmp_path)
