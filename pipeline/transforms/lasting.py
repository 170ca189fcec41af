"""Which event records bear on days after their own: few of any journal, however long it is."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from lethe.pipeline.transforms.journal_records import is_tenure_record
from lethe.protocol.journal import EventRecordType

READ_BY_AUDITS: Final = (EventRecordType.ELECTION, EventRecordType.GAP)
"""Of these types the audit of a day reads those of all days."""
_OF_TYPES: Final = (*READ_BY_AUDITS, EventRecordType.BROKER)


def is_lasting() -> Column:
    """Return whether a row of CONTROLLER_EVENTS is one of LASTING_EVENTS; never null. Deletions wait for brokers, whose
    reasons may be days old; the next election ends a tenure, and a gap explains what lacks."""
    return is_of_types(_OF_TYPES) | is_tenure_record() | is_unhosted()


def is_unhosted() -> Column:
    """Return whether a record is about replicas that no broker holds; never null."""
    return (F.col("type") == EventRecordType.ACK.value) & F.col("said.why").isNotNull()


def is_of_types(types: tuple[EventRecordType, ...]) -> Column:
    """Return whether a record is of one of these types."""
    return F.col("type").isin(*(kind.value for kind in types))
