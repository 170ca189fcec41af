"""Kafka's wire protocol: versions, frames, headers, messages; kio is named in `codec` alone."""
