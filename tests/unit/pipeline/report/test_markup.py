"""What comes from outside is text, wherever it is put."""

from __future__ import annotations

import pytest

from lethe.pipeline.report.markup import Markup, el, escape, join


@pytest.mark.parametrize(
    "hostile, shown",
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('" onmouseover="x', "&quot; onmouseover=&quot;x"),
        ("a&amp;b'c", "a&amp;amp;b&#x27;c"),
        ("abc\u202edcb\u200b", "abc\\u202edcb\\u200b"),
        ("\x00\x1b[31m\x9f", "\\u0000\\u001b[31m\\u009f"),
        ("\ud800", "\\ud800"),
        ("Ünïcode ≠ 12\u202f345", "Ünïcode ≠ 12\u202f345"),
    ],
)
def test_text_is_escaped_and_what_cannot_be_seen_is_shown(hostile: str, shown: str) -> None:
    assert escape(hostile) == shown
    escape(hostile).encode("utf-8")


def test_elements_escape_children_and_attributes_alike() -> None:
    assert el("td", "<b>", title='"<', data_sort=3) == '<td title="&quot;&lt;" data-sort="3">&lt;b&gt;</td>'


def test_markup_is_not_escaped_twice() -> None:
    assert el("p", el("b", "&")) == "<p><b>&amp;</b></p>"
    assert escape(escape("<")) == "&lt;"


def test_attributes_that_are_none_or_false_are_left_out() -> None:
    assert el("th", class_=None, hidden=False, inert=True) == "<th inert></th>"
    assert el("br") == "<br>"


def test_joining_escapes_each_and_what_is_between() -> None:
    assert join(["<", Markup("<b></b>"), None, ">"], "&") == "&lt;&amp;<b></b>&amp;&gt;"
