"""Properties for the sizes in which a controller does work on many partitions."""

from __future__ import annotations

from typing import Final

from lethe.adapters.properties import MAX_INT, Property, PropertyKind
from lethe.controller.core.config import DEFAULT_OPERATIONS_PER_GROUP, DEFAULT_PARTITIONS_PER_SLICE
from lethe.protocol.kafka.parts import DEFAULT_MAX_BYTES

PARTITIONS_PER_SLICE: Final = "lethe.partitions.per.slice"
OPERATIONS_PER_GROUP: Final = "lethe.removal.operations.per.group"
REQUEST_MAX_BYTES: Final = "lethe.broker.request.max.bytes"

SIZES: Final = (
    Property(
        REQUEST_MAX_BYTES,
        PropertyKind.INTEGER,
        str(DEFAULT_MAX_BYTES),
        "Largest request that the controller sends to a broker, and at most `socket.request.max.bytes`, above which a "
        "broker closes the connection. A larger one is sent in parts; one partition that exceeds it is sent alone.",
        unit="bytes",
        minimum=1024,
        maximum=MAX_INT,
    ),
    Property(
        PARTITIONS_PER_SLICE,
        PropertyKind.INTEGER,
        str(DEFAULT_PARTITIONS_PER_SLICE),
        "About how many partitions, in whole topics, the controller creates at a time, or loads and announces when it "
        "takes control. Smaller slices take less memory and make more requests to every broker.",
        unit="partitions",
        minimum=1,
        maximum=MAX_INT,
    ),
    Property(
        OPERATIONS_PER_GROUP,
        PropertyKind.INTEGER,
        str(DEFAULT_OPERATIONS_PER_GROUP),
        "A topic of so many znodes, and no more than 24 KiB of their paths, is removed as a whole or not at all: some "
        "200 partitions with a name of ten letters. A larger one loses its partitions first, in groups of that size. "
        "Small groups share transactions of up to 100 deletes.",
        unit="operations",
        minimum=1,
        maximum=DEFAULT_OPERATIONS_PER_GROUP,
    ),
)
