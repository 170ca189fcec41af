"""`python -m tools.fetch_kafka 3.9.1 2.5.1`: fetches these versions of Kafka, so that nothing is fetched later."""

from __future__ import annotations

import sys

from lethe.cluster.kafka_fetch import KafkaUnavailable, KafkaVersion, fetch_kafka


def main(versions: list[str]) -> int:
    """Exit code 1 where one of them cannot be had."""
    try:
        # All are understood before the first one is fetched, which takes a minute.
        for version in [KafkaVersion.parse(text) for text in versions]:
            kafka = fetch_kafka(version, lambda told: print(told, flush=True))
            print(f"Kafka {kafka.version} is in {kafka.jars}")
    except (KafkaUnavailable, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
