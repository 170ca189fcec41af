"""`lethe topics delete --grace`: deletes topics into the trash, from which `lethe topics undelete` brings them back."""

from __future__ import annotations

from collections.abc import Sequence

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.outcomes import exit_of
from lethe.admin.refusal import Exit
from lethe.admin.trash import OnItsWay, mark_for_trash, wait_until_trashed
from lethe.cli.answer import Answer
from lethe.cli.topics_trash_list import until_text
from lethe.protocol.durations import parse_duration_ms
from lethe.protocol.journal import JsonValue


def demand_grace(text: str, *, no_trash: bool) -> None:
    """Check the grace period. `no_trash`: another option excludes the trash. Raises ValueError."""
    if no_trash:
        raise ValueError("--grace goes with named topics, not with --plan, --unreadable, --owe or --from-candidates")
    parse_duration_ms(text)


async def deletion_with_grace(
    session: ZooKeeperSession, names: Sequence[str], grace: str, *, wait: bool, timeout_ms: int
) -> Answer:
    """Mark the topics with this grace period; with `wait`, wait until they are in the trash."""
    outcomes = await mark_for_trash(session, names, parse_duration_ms(grace))
    marked = [each.name for each in outcomes if each.problem is None]
    found = await wait_until_trashed(session, marked, timeout_ms=timeout_ms) if wait and marked else {}
    lines: list[str] = []
    rows: list[JsonValue] = []
    for each in outcomes:
        entry, is_marked = found.get(each.name, OnItsWay(None, is_marked=True))
        rows.append({"topic": each.name, "until_ms": entry.until_ms if entry else None, "problem": each.problem})
        if each.problem is not None:
            lines.append(each.problem)
        elif entry is not None:
            lines.append(f"Topic {each.name} is in the trash until {until_text(entry.until_ms)}.")
        elif not is_marked:
            lines.append(
                f"Topic {each.name} is not in the trash, and not marked any more: its mark was refused or taken back, "
                f"or another process has deleted it. See `lethe explain {each.name}`."
            )
        elif wait:
            lines.append(f"Topic {each.name} is not in the trash yet: see `lethe explain {each.name}`.")
        else:
            lines.append(
                f"Topic {each.name} is marked, to go into the trash: `lethe explain {each.name}` says what it waits "
                "for."
            )
    missed = [each for each in found.values() if each.entry is None]
    exit_code = exit_of(outcomes)
    if missed and exit_code is Exit.OK:
        exit_code = Exit.TIMED_OUT if any(each.is_marked for each in missed) else Exit.NO
    return Answer(rows, tuple(lines), exit=exit_code)
