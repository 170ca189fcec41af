"""Chaos for real: a whole cluster of processes under faults, and a checker of its own that decides.

    python -m tests.chaos --minutes 10 --seed 7 --json

Theory of operation. `cluster` runs a ZooKeeper ensemble, controllers, agents and Kafka brokers, each behind gates (TCP
proxies). `schedule` draws the faults from the seed. `faults` performs them while `workload` creates, deletes, expands
and reassigns topics. The seed replays the schedule, not the interleaving of the processes.

The verdict shares no code with what is judged (`survey`, `controller`, `adapters`). It has four sources:

    transactions   ZooKeeper's own log on disk: each write with its session, time and content (`txn_log`, `history`)
    raw_zookeeper  the znodes at the end
    raw_kafka      the Metadata answer of every broker at the end
    disks          the log directories, all the time
"""
