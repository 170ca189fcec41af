"""Reads the three places of a cluster for the checker: znodes, Metadata of every broker, log directories."""

from __future__ import annotations

import asyncio

from lethe.cluster.loopback_server import Address
from tests.chaos.checker import Seen, Verdict, judge
from tests.chaos.cluster import ChaosCluster
from tests.chaos.disks import scan
from tests.chaos.ensemble import HOST
from tests.chaos.half_created import half_created
from tests.chaos.history import CONFIGS, CONTROLLER, MARKERS, REASSIGN, TOPICS, History, read_history
from tests.chaos.raw_kafka import NoAnswer, SeenCache, read_cache
from tests.chaos.raw_zookeeper import RawZooKeeper
from tests.chaos.txn_log import Transaction, committed

ROOTS = (TOPICS, CONFIGS, MARKERS)


async def read_transactions(cluster: ChaosCluster) -> list[Transaction]:
    """Return everything that the ensemble has committed so far. Raises txn_log.Unreadable."""
    return await asyncio.to_thread(committed, [server.transactions for server in cluster.ensemble.servers])


async def look(cluster: ChaosCluster) -> tuple[History, Verdict]:
    """Judge the cluster as it is now. Raises ReadFailed, OSError, txn_log.Unreadable where ZooKeeper is unseen."""
    async with RawZooKeeper(HOST, cluster.ensemble.servers[0].port) as reader:
        await reader.sync()
        znodes: dict[str, bytes] = {}
        for root in ROOTS:
            znodes |= await reader.tree(root.rstrip("/"))
        for path in (REASSIGN, CONTROLLER):
            data = await reader.get(path)
            if data is not None:
                znodes[path] = data
    numbers = (*cluster.agents, *cluster.kafka)
    caches = await asyncio.gather(*(_cache(cluster.address(number)) for number in numbers))
    directories = await asyncio.to_thread(scan, cluster.log_dirs)
    history = read_history(await read_transactions(cluster))
    history.violations += _differences(history, znodes)
    failed = half_created({number: each.state_change_log for number, each in cluster.kafka.items()})
    shown = dict(zip(numbers, caches, strict=True))
    return history, judge(history, Seen(_below_roots(znodes), shown, directories, failed))


async def _cache(address: Address) -> SeenCache | None:
    try:
        return await read_cache(*address)
    except (NoAnswer, OSError):
        return None


def _below_roots(znodes: dict[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in znodes.items() if path not in {root.rstrip("/") for root in ROOTS}}


def _differences(history: History, znodes: dict[str, bytes]) -> list[str]:
    """Say where the transactions and the znodes disagree: then the history is not what happened."""
    told = {path for path in history.paths if path.startswith(ROOTS)}
    read = {path for path in znodes if path.startswith(ROOTS)}
    lacking = [f"the transactions lack {path}, which ZooKeeper has" for path in sorted(read - told)]
    return lacking + [f"the transactions have {path}, which ZooKeeper lacks" for path in sorted(told - read)]
