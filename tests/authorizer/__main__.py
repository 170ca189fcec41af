"""Compare our authorizer with Kafka's compiled one.

python -m tests.authorizer 3.9.1 2.5.1 --sets 10000 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lethe.cluster.kafka_fetch import KafkaVersion, fetch_kafka
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from tests.authorizer import compare
from tests.authorizer.kafka import kafka_authorizers


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def timed(what: str) -> Iterator[list[str]]:
    """Print one line at the end, with what was found and the time."""
    found: list[str] = []
    started_s = time.monotonic()
    yield found
    say(f"  {what}: {'; '.join(found)} ({time.monotonic() - started_s:.1f} s)")


def shown(counts: dict[str, int]) -> str:
    words = {"A": "allowed", "D": "denied", "-": "not asked, as this version has no such operation"}
    return ", ".join(f"{words.get(key, key)} {count}" for key, count in sorted(counts.items()))


def run(version: str, connect: str, seed: int, sets: int) -> None:
    say(f"Kafka {version}, seeds {seed} to {seed + sets - 1}")
    with kafka_authorizers(fetch_kafka(KafkaVersion.parse(version), say)) as kafka:
        compare.configure(kafka, connect)
        seeds = range(seed, seed + sets)
        with timed(f"verdicts in {sets} sets of ACLs are equal") as found:
            found.append(shown(compare.check_worlds(kafka, seeds)))
        with timed(f"verdicts in {sets} sets with a damaged znode are equal or stricter") as found:
            found.append(shown(compare.check_damaged(kafka, seeds)))
        with timed(f"{sets} distinguished names and mapping rules give the same") as found:
            found.append(shown(compare.check_names(kafka, seeds)))
        some = seeds[: max(1, sets // 100)]
        with timed(f"verdicts in {len(some)} sets that both load from ZooKeeper are equal") as found:
            found.append(shown(asyncio.run(compare.check_zookeeper(kafka, f"{connect}/{version}", some))))
        with timed(f"after each of {len(some)} changes that Kafka makes, ACLs and verdicts are equal") as found:
            left = asyncio.run(compare.check_changes(kafka, f"{connect}/{version}", seed, len(some)))
            found.append(f"{left} ACLs are left")
        say(f"  {'a znode with':40}  Kafka  Lethe")
        for name, theirs, ours in compare.check_hostile(kafka):
            say(f"    {name:38}  {theirs:5}  {ours}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=["3.9.1", "2.5.1"])
    parser.add_argument("--sets", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with EmbeddedZooKeeper(ZooKeeperSettings(tick_time_ms=500)) as zookeeper:
        for version in arguments.versions:
            run(version, zookeeper.connect_string, arguments.seed, arguments.sets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
