"""What a controller does beyond serving brokers and clients: everything, or what the command that runs it has named.

A command that takes control for minutes deletes nothing that its user was not asked about:

    controller of            deletes marked topics   has debts paid by    forgets    answers topic requests
    -----------------------  ----------------------  -------------------  ---------  ----------------------
    lethe controller         all                     all brokers          all        yes
    lethe rescue             all                     all brokers          nobody     yes
    lethe rescue --topic T   T                       nobody               nobody     yes
    lethe rescue --forget N  all, or T               N                    N          yes
    lethe brokers settle N   none                    N                    nobody     no
    lethe doctor --fix       the chosen half-        nobody               nobody     no
                             deleted ones

Debts and requests outside the scope stay in ZooKeeper as they are, for a later controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lethe.protocol.vocabulary import BrokerId


@dataclass(frozen=True, slots=True)
class Scope:
    """See above; None: no limit."""

    topics: frozenset[str] | None = None
    """Delete only these marked topics, and keep the markers of the others."""
    debtors: frozenset[BrokerId] | None = None
    """Only these brokers are asked to delete what they owe, and only their settled debts are removed."""
    forgettable: frozenset[BrokerId] | None = None
    """Only requests to forget these brokers are read."""
    answers_requests: bool = True
    """Read the requests below `/lethe/requests`."""

    def settles(self, broker: BrokerId) -> bool:
        """Return True if the broker's debts are paid and closed."""
        return self.debtors is None or broker in self.debtors

    def forgets(self, broker: BrokerId) -> bool:
        """Return True if a request to forget the broker is carried out or refused."""
        return self.forgettable is None or broker in self.forgettable


EVERYTHING: Final = Scope()
