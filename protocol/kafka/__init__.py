"""Kafka's wire protocol: versions, frames, headers, messages; only `codec` imports kio."""
