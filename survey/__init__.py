"""Compares the three places of a topic: znodes, brokers' metadata caches, log directories.

`take.take` reads them, `leftovers.leftovers` (pure) finds what is left over, `as_json` formats both. `examine.examine`
reads a few topics only, and `explain.explain` (pure) says why they are not gone yet. A survey uses only Kafka's
protocol and znodes and asks no controller, so it works with any Kafka cluster in ZooKeeper mode.
"""

if __name__ != "lethe.survey":
    raise ImportError("import lethe.survey: under its bare name each of its modules would exist twice")
