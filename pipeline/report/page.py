"""The whole page: head, key figures, contents, sections. A pure function of the values."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from lethe.pipeline.report import (
    sections_cluster,
    sections_deletions,
    sections_findings,
    sections_owed,
    sections_timelines,
    sections_trends,
)
from lethe.pipeline.report.components import Section
from lethe.pipeline.report.formatting import NONE, cut, day, instant
from lethe.pipeline.report.markup import Child, Markup, el, join, raw
from lethe.pipeline.report.summary import KeyFigure, ReportLevel, figures, is_empty, is_limited_to_days, summarize
from lethe.pipeline.report.values import Report

TITLE: Final = "Topic deletions"
_ICONS: Final = {
    ReportLevel.GOOD: "M8.2 14.6L3.4 9.8l1.9-1.9 2.9 2.9 6.5-6.5 1.9 1.9z",
    ReportLevel.ATTENTION: "M10 2.2L18.6 17.4H1.4zM9 7.6v4.6h2V7.6zm0 5.7v2h2v-2z",
    ReportLevel.BAD: "M6.4 1.5h7.2l4.9 4.9v7.2l-4.9 4.9H6.4l-4.9-4.9V6.4zM9 5v6.4h2V5zm0 7.7v2.1h2v-2.1z",
    ReportLevel.EMPTY: "M3 9h14v2H3z",
}


def page(report: Report) -> str:
    """Return the report as one self-contained HTML document."""
    sections = _sections(report)
    style, script = _resource("page.css"), _resource("page.js") + _resource("deletions.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = report.title or TITLE
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{cut(title, 120)}: {summarize(report).sentence}"),
        el("link", rel="icon", href="data:,"),
        el("style", raw(style)),
    )
    body = el(
        "body",
        el("a", "Skip to the report", href="#report", class_="skip"),
        _header(report, title),
        el("div", _contents(sections), el("main", *(each.markup() for each in sections), id="report"), class_="frame"),
        _footer(report),
        el("script", raw(script)),
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def _sections(report: Report) -> Sequence[Section]:
    if is_empty(report):
        return (_nothing(report),)
    return (
        sections_findings.stuck(report),
        sections_findings.leftovers(report),
        sections_deletions.progress(report),
        sections_trends.trends(report),
        sections_timelines.timelines(report),
        sections_deletions.latencies(report),
        sections_deletions.reclaimed(report),
        sections_owed.owed(report),
        sections_cluster.brokers(report),
        sections_cluster.controllers(report),
        sections_findings.candidates(report),
        sections_cluster.audit(report),
        sections_cluster.quarantine(report),
    )


def _nothing(report: Report) -> Section:
    text = (
        "The lake has nothing about these days. Choose others with --from and --to, or omit both."
        if is_limited_to_days(report)
        else "The tables of the lake are empty. They fill when lethe pipeline run reads a journal "
        "(lethe.journal.dir) or a survey (lethe survey --out)."
    )
    return Section("empty", "Nothing to report", None, el("p", text, class_="calm"))


# --- head ---------------------------------------------------------------------------------------------------------


def _header(report: Report, title: str) -> Markup:
    found = summarize(report)
    icon = el("svg", el("path", d=_ICONS[found.level], fill_rule="evenodd"), viewBox="0 0 20 20", aria_hidden="true")
    level = el("p", icon, el("span", found.level.value), class_=f"level {found.level.name.lower()}")
    strip = [] if is_empty(report) else [el("ul", *map(_figure, figures(report)), class_="figures")]
    return el(
        "header",
        el(
            "div",
            el("div", el("p", "Lethe", class_="brand"), el("h1", cut(title, 200)), class_="titles"),
            el("dl", *_about(report), class_="about"),
            class_="top",
        ),
        level,
        el("p", found.sentence, class_="verdict"),
        *strip,
    )


def _about(report: Report) -> list[Child]:
    surveys = (*report.surveys.shown, *([] if report.newest is None else [report.newest]))
    cluster = next((row.cluster_id for row in surveys if row.cluster_id), None)
    facts = [("Cluster", cut(cluster, 60) if cluster else None), ("Days", _days(report)), ("As of", _as_of(report))]
    return [el("div", el("dt", name), el("dd", value)) for name, value in facts if value is not None]


def _days(report: Report) -> str:
    if not is_limited_to_days(report):
        return "all"
    first = "the first" if report.first_day is None else day(report.first_day)
    last = "the last" if report.last_day is None else day(report.last_day)
    return first if first == last else f"{first} to {last}"


def _as_of(report: Report) -> str | None:
    return None if report.as_of is None else f"{instant(report.as_of)[:19]} UTC"


def _figure(figure: KeyFigure) -> Markup:
    value = el("span", figure.value, class_="value none" if figure.value == NONE else "value")
    return el(
        "li",
        el(
            "a",
            el("span", figure.name, class_="what"),
            value,
            el("span", figure.note, class_="note"),
            href=f"#{figure.section}",
        ),
    )


def _contents(sections: Sequence[Section]) -> Markup:
    items = [
        el(
            "li",
            el(
                "a",
                el("span", section.title),
                el("span", section.tally, class_="tally loud" if section.is_loud else "tally")
                if section.tally
                else None,
                href=f"#{section.anchor}",
            ),
        )
        for section in sections
    ]
    return el("nav", el("ol", *items), aria_label="Contents")


def _footer(report: Report) -> Markup:
    words = (
        "Deleted: every replica has acknowledged, the topic's znodes are gone, every live broker got the tombstone. "
        "Reclaimed: deleted, and the bytes are gone too. Times are UTC; kB, MB and GB are powers of 1000."
    )
    made = join(("Made by ", el("code", "lethe report"), " from the lake ", el("code", cut(report.lake, 300)), "."))
    return el("footer", el("p", words), el("p", made))


# --- style and script ---------------------------------------------------------------------------------------------


def _resource(name: str) -> str:
    return files("lethe.pipeline.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
