"""Why something that a property names cannot be used, and what to do."""

from __future__ import annotations


class Unusable(Exception):
    """`reason` and `remedy` complete a problem with the property that names the thing."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason, self.remedy = reason, remedy
