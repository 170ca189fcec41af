"""Where Lethe is meant to answer otherwise than Kafka's controller, each with its reason.

What is missing or wrong is not listed here: `make judge` fails for it. A listed difference that no step has any more
fails as well.
"""

from __future__ import annotations

from typing import Final

from tests.judge.compare import Difference
from tests.judge.step import Side

DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "the controller is a node more",
        (
            "Admin 3.9.1 cluster*",
            "Python aiokafka cluster",
            "Python kafka-python cluster",
            "kcat -L*",
        ),
        frozenset({Side.LETHE}),
        "Clients learn of an advertised controller as of a broker; Kafka's controller is one of the brokers "
        "([decision 0034](decisions/0034-clients-are-passed-on.md)).",
    ),
    Difference(
        "internal topics are not deleted",
        ("3.9.1 TopicCommand --delete --topic __consumer_offsets",),
        frozenset({Side.LETHE, Side.AGENTS}),
        "Kafka deletes `__consumer_offsets`, and with it the offsets of all groups. Lethe protects it, whoever asks.",
    ),
)
