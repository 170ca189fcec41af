"""Topic settings as commands get them: `name=value` texts, checked by Kafka's rules before they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lethe.protocol.kafka.topic_configs import InvalidTopicConfig, checked_topic_configs


def parse_topic_config(settings: Iterable[str]) -> dict[str, str]:
    """Parse `name=value` texts into a dictionary sorted by name.

    Raises ValueError naming the text if it is malformed or repeats a setting.
    """
    found: dict[str, str] = {}
    for setting in settings:
        name, sign, value = (part.strip() for part in setting.partition("="))
        if not sign or not name or not value:
            raise ValueError(f"topic setting {setting!r} is not of the form name=value")
        if name in found:
            raise ValueError(f"topic setting {name} is given twice: {found[name]!r} and {value!r}")
        found[name] = value
    return dict(sorted(found.items()))


def topic_config_problem(config: Mapping[str, str]) -> str | None:
    """Return why a broker of Kafka 3.9 would refuse these settings, in its words; None if it accepts them.

    Commands do not read whether brokers have a remote storage: a broker without one refuses to start it for a topic."""
    try:
        checked_topic_configs(config, {}, tiered_storage=True)
    except InvalidTopicConfig as problem:
        return str(problem)
    return None
