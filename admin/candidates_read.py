"""Reads the table of `lethe topics delete --from-candidates` and checks it before the cluster is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lethe.admin.candidates import Candidate, NoPyArrow, read_candidates, read_cluster_id
from lethe.admin.candidates_judge import DAY_MS
from lethe.admin.given_file import unread
from lethe.admin.lake_rules import read_rules
from lethe.admin.refusal import Exit, Refusal
from lethe.protocol.clocks import CLOCKS_DIFFER_MS
from lethe.protocol.counting import counted
from lethe.protocol.journal import time_to_text

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CandidatesTable:
    """The candidates, the names that the lake protects, and the cluster id of the lake if it is known."""

    candidates: tuple[Candidate, ...]
    protected: tuple[str, ...] = ()
    cluster_id: str | None = None


async def candidates_table(path: Path, *, max_age_days: float, now_ms: int | None = None) -> CandidatesTable:
    """Read the table. Raises Refusal where it is unreadable, too old or in the future. Raises ValueError where it is
    malformed, or older than its lake's rules."""
    candidates = await _read(path, read_candidates)
    rules = await _read(path, read_rules)
    _demand_fresh(path, candidates, max_age_days, time.time_ns() // 1_000_000 if now_ms is None else now_ms)
    return CandidatesTable(candidates, () if rules is None else rules.protected, await _read(path, read_cluster_id))


async def _read(path: Path, read: Callable[[Path], _T]) -> _T:
    try:
        return await asyncio.to_thread(read, path)
    except NoPyArrow as problem:
        raise Refusal(f"--from-candidates: {path} was not read: {problem}", Exit.USAGE) from problem
    except OSError as problem:
        raise unread("--from-candidates", path, problem) from problem
    except ValueError as problem:
        raise ValueError(f"--from-candidates: {problem}") from problem


def _demand_fresh(path: Path, candidates: Sequence[Candidate], max_age_days: float, now_ms: int) -> None:
    """Raise Refusal for a survey that is too old, and for one in the future, which would never become too old."""
    if not candidates:
        return
    newest = max(candidates, key=lambda candidate: candidate.taken_at_ms)
    if newest.taken_at_ms - now_ms > CLOCKS_DIFFER_MS:
        raise Refusal(
            f"{path} rests on the survey {newest.survey_id}, taken at {time_to_text(newest.taken_at_ms)}, and "
            f"here it is {time_to_text(now_ms)}: its age is unknown. See which clock is wrong, then take a "
            "new survey and run the pipeline again"
        )
    oldest = min(candidates, key=lambda candidate: candidate.taken_at_ms)
    age_days = (now_ms - oldest.taken_at_ms) / DAY_MS
    if age_days > max_age_days:
        raise Refusal(
            f"{path} rests on the survey {oldest.survey_id}, which is "
            f"{counted(round(age_days), 'day')} old: take a new one "
            f"and run the pipeline again, or allow it with --max-age {int(age_days) + 1}"
        )
