"""`python -m tools.fetch_kafka 3.9.1 2.5.1`: fetches these versions of Kafka, so that nothing is fetched later."""

from __future__ import annotations

import sys

from cluster.kafka_fetch import KafkaUnavailable, KafkaVersion, fetch_kafka


def main(versions: list[str]) -> int:
    """Exit code 1 where one of them cannot be had."""
    for text in versions:
        try:
            kafka = fetch_kafka(KafkaVersion.parse(text), lambda told: print(told, flush=True))
        except (KafkaUnavailable, ValueError) as error:
            print(error, file=sys.stderr)
            return 1
        print(f"Kafka {kafka.version} is in {kafka.jars}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
