"""Opens the journal that a daemon's properties configure."""

from __future__ import annotations

from lethe.adapters.clock import Clock
from lethe.adapters.config_common import JournalFilesConfig, JournalTopicConfig
from lethe.adapters.journal import Journal, JournalConfig
from lethe.adapters.kafka.journal_topic import TopicDestination, aiokafka_producer


def open_journal(
    daemon: str, number: int, files: JournalFilesConfig | None, topic: JournalTopicConfig | None, clock: Clock
) -> Journal | None:
    """Return the journal of, for example, `controller` 1001; None if none is configured.

    Files and connections are opened with the first line.
    """
    source, name = f"/lethe/{daemon}/{number}", f"{daemon}-{number}"
    destination = None
    if topic is not None:
        start = aiokafka_producer(topic.servers, topic.topic, f"lethe-journal-{name}", topic.reach)
        destination = TopicDestination(source, start)
    if files is not None:
        return Journal(
            JournalConfig(files.directory, name, source, files.max_bytes, files.max_files), clock, topic=destination
        )
    return None if destination is None else Journal(JournalConfig(None, name, source), clock, topic=destination)
