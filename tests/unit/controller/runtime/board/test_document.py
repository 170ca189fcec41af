"""Deltas: a reader who applies them has what was looked at."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lethe.controller.runtime.board.document import NOTHING, Document, Rows, delta
from lethe.protocol.journal import JsonValue

ROWS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2), max_size=6).map(
    lambda found: {key: {"done": value} for key, value in found.items()}
)
DOCUMENTS = st.builds(
    lambda queue, held, done: Document(
        {"queue": queue}, {"held": Rows(len(held) + 3, held), "done": Rows(len(done), done)}
    ),
    st.integers(0, 2),
    ROWS,
    ROWS,
)


def applied(model: dict[str, Any], change: dict[str, JsonValue] | None) -> dict[str, Any]:
    """What page.js does with a message."""
    if change is None:
        return model
    said: Any = change
    values = {**model["values"], **said.get("values", {})}
    lists = dict(model["lists"])
    for name, part in said.get("lists", {}).items():
        known = lists.get(name, {"count": 0, "rows": {}})
        rows = {**known["rows"], **part.get("rows", {})}
        order = part.get("order", list(known["rows"]))
        lists[name] = {"count": part.get("count", known["count"]), "rows": {key: rows[key] for key in order}}
    return {"values": values, "lists": lists}


@given(st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_deltas_add_up(documents: list[Document]) -> None:
    model: dict[str, Any] = {"values": {}, "lists": {}}
    before = NOTHING
    for document in documents:
        model = applied(model, delta(before, document))
        before = document
        shown = {name: {"count": rows.count, "rows": dict(rows.rows)} for name, rows in document.lists.items()}
        assert model == {"values": dict(document.values), "lists": shown}
        assert [list(model["lists"][name]["rows"]) for name in shown] == [list(r.rows) for r in document.lists.values()]


@given(DOCUMENTS)
def test_nothing_is_told_of_what_is_the_same(document: Document) -> None:
    assert delta(document, document) is None


def test_only_what_is_new_is_told() -> None:
    before = Document({"queue": 1}, {"held": Rows(2, {"a": {"done": 0}, "b": {"done": 0}})})
    after = Document({"queue": 1}, {"held": Rows(2, {"a": {"done": 0}, "b": {"done": 1}})})
    assert delta(before, after) == {"lists": {"held": {"rows": {"b": {"done": 1}}}}}
