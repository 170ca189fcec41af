"""The section about debts and the trash: what is promised, and what can be taken back."""

from __future__ import annotations

from lethe.pipeline.report import cells
from lethe.pipeline.report.components import Section, code, details, empty_note, stack
from lethe.pipeline.report.formatting import count, number
from lethe.pipeline.report.html_table import Cell, Column, table
from lethe.pipeline.report.markup import Markup
from lethe.pipeline.report.values import OpenDebt, OwedByBroker, Promises, Report, TrashedTopic


def owed(report: Report) -> Section:
    """Return the section; it is never loud, as a debt is no leftover."""
    found = report.promises
    open_debts = sum(row.open or 0 for row in found.brokers.shown)
    counts = [f"{number(open_debts)} open", *(f"{number(many)} {how}" for how, many in found.closed.items())]
    debts = count(open_debts + sum(found.closed.values()), "debt")
    lead = f"{debts}: {', '.join(counts)}. Lethe's controller has it deleted when the broker returns."
    has_debts = bool(open_debts or found.closed)
    brokers = [_brokers(found), details("Show each open debt", _debts(found))] if open_debts else []
    return Section(
        "owed",
        "Debts and trash",
        lead if has_debts else None,
        stack(
            *(brokers or [empty_note("No debts: no broker owes anything." if has_debts else "No debts.")]),
            _trash(found),
        ),
        number(open_debts),
    )


def _brokers(found: Promises) -> Markup:
    columns: list[Column[OwedByBroker]] = [
        Column("Broker", "name", lambda row: Cell(f"broker {row.broker}", row.broker)),
        Column("Bytes owed", "number", lambda row: cells.size(row.owed_bytes if row.open != row.unsized else None)),
        Column("Debts", "number", lambda row: cells.number(row.open)),
        Column("Of unknown size", "number", lambda row: cells.number(row.unsized)),
        Column("Replicas", "number", lambda row: cells.number(row.open_replicas)),
        Column("Since the change of", "time", lambda row: cells.day(row.day)),
    ]
    return table("What brokers owe", columns, found.brokers, "broker", "those that owe most")


def _debts(found: Promises) -> Markup:
    columns: list[Column[OpenDebt]] = [
        Column("Topic", "name", lambda row: cells.topic(row.topic)),
        Column("Broker", "number", lambda row: cells.number(row.broker)),
        Column("Partitions", "code", lambda row: code(row.partitions)),
        Column("Since (UTC)", "time", lambda row: cells.instant(row.since)),
        Column("Topic id", "code", lambda row: code(row.topic_id)),
    ]
    return table("Open debts", columns, found.debts, "debt", "the oldest", is_long=True)


def _trash(found: Promises) -> Markup:
    if not found.trash.total:
        return empty_note("No topic is in the trash.")
    columns: list[Column[TrashedTopic]] = [
        Column("Topic", "name", lambda row: cells.topic(row.topic)),
        Column("Since (UTC)", "time", lambda row: cells.instant(row.trashed_at)),
        Column("Expires (UTC)", "time", lambda row: cells.instant(row.until)),
        Column("Topic id", "code", lambda row: code(row.topic_id)),
    ]
    caption = "In the trash: lethe topics undelete brings them back"
    return table(caption, columns, found.trash, "topic", "those that expire first", is_long=True)
