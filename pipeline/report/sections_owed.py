"""The section about debts and the trash: what is promised, and what can be taken back."""

from __future__ import annotations

from lethe.pipeline.report.components import (
    Section,
    bytes_cell,
    code,
    details,
    empty_note,
    instant_cell,
    number_cell,
    stack,
    topic_cell,
)
from lethe.pipeline.report.formatting import count, day, number
from lethe.pipeline.report.html_table import Cell, Column, left_out_note, table
from lethe.pipeline.report.markup import Markup
from lethe.pipeline.report.values import OwedByBroker, Promises, Report


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
    columns = [
        Column("Broker", "name"),
        *(Column(name, "number") for name in ("Bytes owed", "Debts", "Of unknown size", "Replicas")),
        Column("Since the change of", "time"),
    ]
    return table(
        "What brokers owe",
        columns,
        [_broker_row(row) for row in found.brokers.shown],
        left_out=left_out_note(len(found.brokers.shown), found.brokers.total, "broker", "those that owe most"),
    )


def _broker_row(row: OwedByBroker) -> list[Cell]:
    is_known = row.open != row.unsized
    return [
        Cell(f"broker {row.broker}", row.broker),
        bytes_cell(row.owed_bytes if is_known else None),
        number_cell(row.open),
        number_cell(row.unsized),
        number_cell(row.open_replicas),
        Cell(day(row.day), day(row.day)),
    ]


def _debts(found: Promises) -> Markup:
    columns = [
        Column("Topic", "name"),
        Column("Broker", "number"),
        Column("Partitions", "code"),
        Column("Since (UTC)", "time"),
        Column("Topic id", "code"),
    ]
    rows = [
        [
            topic_cell(row.topic),
            number_cell(row.broker),
            code(row.partitions),
            instant_cell(row.since),
            code(row.topic_id),
        ]
        for row in found.debts.shown
    ]
    left_out = left_out_note(len(found.debts.shown), found.debts.total, "debt", "the oldest")
    return table("Open debts", columns, rows, left_out=left_out, is_long=True)


def _trash(found: Promises) -> Markup:
    if not found.trash.total:
        return empty_note("No topic is in the trash.")
    columns = [
        Column("Topic", "name"),
        Column("Since (UTC)", "time"),
        Column("Expires (UTC)", "time"),
        Column("Topic id", "code"),
    ]
    rows = [
        [topic_cell(row.topic), instant_cell(row.trashed_at), instant_cell(row.until), code(row.topic_id)]
        for row in found.trash.shown
    ]
    left_out = left_out_note(len(found.trash.shown), found.trash.total, "topic", "those that expire first")
    return table("In the trash: lethe topics undelete brings them back", columns, rows, left_out=left_out, is_long=True)
