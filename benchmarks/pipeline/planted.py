"""The exact counts that a generator put into its files; the tables of the pipeline must match them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class Planted:
    """Counts; they can be added over days and chunks."""

    lines: int = 0
    """Valid lines, each counted once."""
    repeated: int = 0
    """Lines that occur once more."""
    bad: int = 0
    """Invalid lines; all differ."""
    size_bytes: int = 0
    """Of all files."""
    done: int = 0
    let_go: int = 0
    vanished: int = 0
    open: int = 0
    """Deletions by outcome."""
    replicas: int = 0
    """Replicas whose deletion was requested."""
    acked: int = 0
    freed_directories: int = 0
    freed_bytes: int = 0
    tenures: int = 0
    directories: int = 0
    """In the survey, without log directories."""
    znodes: int = 0
    cached: int = 0
    """Rows of brokers' caches."""
    unused: int = 0
    """Topics without writes."""
    violations: Counter[str] = field(default_factory=Counter)
    """By rule of the audit."""
    leftovers: Counter[str] = field(default_factory=Counter)
    """By reason."""

    def __add__(self, other: Planted) -> Planted:
        return Planted(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    @property
    def deletions(self) -> int:
        return self.done + self.let_go + self.vanished + self.open
