"""The section of docs/benchmarks.md about TLS and logins."""

from __future__ import annotations

from typing import Final

from benchmarks.against_kafka import results as of_turns
from benchmarks.documents import Document
from benchmarks.provenance import measured_on
from benchmarks.security import results

SVG_NAME: Final = "benchmarks-security.svg"
METHOD: Final = """\
`make bench-security` runs everything by turns, in one run on one machine.

* **Connections**: eight at a time to the listeners of one controller; each logs in, asks for versions and closes. The
  client is one process on the same cores. Keys are of the curve P-256, and users of SCRAM have 4,096 iterations.
* **Logins**: what a controller does before it takes control, at one agent that stands for all brokers. Where brokers
  did not answer in the time that a controller waits, their number is given. The agent's listener has a queue of 128
  connections; what finds it full is tried again by the kernel after a second. Without TLS a controller waits half a
  second after the first answer, with TLS two. Brokers with listeners of their own each have a queue.
* **Topics**: as above, with three agents that acknowledge, and Lethe's controller with each protocol of its connections
  to brokers. A ratio is the median time divided by that of the first protocol."""


def page(found: Document) -> str:
    """Return the section as Markdown."""
    return "\n".join(
        [
            "## TLS and logins",
            "",
            measured_on(found, "processor", "memory", "disk")
            + f" Load average between {min(found['load']):.0f} and {max(found['load']):.0f}, "
            "other work on the machine included.",
            "",
            f"![connections accepted in a second]({SVG_NAME})",
            "",
            table(found),
            "",
            METHOD,
            "",
        ]
    )


def table(found: Document) -> str:
    """Return the tables of what was measured, as Markdown."""
    parts = [_connections(found)] if found["accepted"] else []
    parts += [_logins(found)] if found["logged_in"] else []
    parts += [_topics(found)] if found["turns"] else []
    return "\n\n".join("\n".join(each) for each in parts)


def _connections(found: Document) -> list[str]:
    lines = [
        "| connection | accepted a second | the controller's processor time | the client's |",
        "|---|---:|---:|---:|",
    ]
    for kind in results.kinds(found["accepted"]):
        server, client = (results.processor_ms(found, kind, side) for side in ("server_s", "client_s"))
        lines.append(f"| {kind} | {results.per_second(found, kind):,.0f} | {server:.2f} ms | {client:.2f} ms |")
    return lines


def _logins(found: Document) -> list[str]:
    numbers = list(dict.fromkeys(row["brokers"] for row in found["logged_in"]))
    lines = [
        f"| a controller connects to | {' | '.join(f'{number} brokers' for number in numbers)} |",
        "|---|" + "---:|" * len(numbers),
    ]
    for kind in results.kinds(found["logged_in"]):
        cells = [_login(results.login(found, kind, number)) for number in numbers]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return lines


def _login(measured: tuple[float, float, int] | None) -> str:
    if measured is None:
        return "–"
    seconds, used_s, unanswered = measured
    return f"{seconds:.2f} s, processor {used_s:.2f} s" + (f", **{unanswered} unanswered**" if unanswered else "")


def _topics(found: Document) -> list[str]:
    names = list(dict.fromkeys(turn["contestant"] for turn in found["turns"]))
    first, *others = names
    lines = [
        f"| topics × partitions × replicas | | {first} | {' | '.join(f'{name} | ratio' for name in others)} |",
        "|---|---|---:|" + "---:|---:|" * len(others),
    ]
    for workload in of_turns.workloads(found):
        for phase in of_turns.phases(found, workload):
            base = of_turns.row(found, workload, phase, first)
            cells = [_seconds(base)]
            for name in others:
                row = of_turns.row(found, workload, phase, name)
                ratio = "–" if base is None or row is None else f"**{row.seconds / base.seconds:.2f}×**"
                cells += [_seconds(row), ratio]
            lines.append(f"| {workload} | {phase} | {' | '.join(cells)} |")
    return lines


def _seconds(row: of_turns.PhaseMedians | None) -> str:
    if row is None:
        return "–"
    spread = "" if row.rounds == 1 else f" ({row.fastest:.2f}–{row.slowest:.2f}, {row.rounds} runs)"
    return f"{row.seconds:.2f} s{spread}, processor {row.cpu_s:.2f} s"
