"""The three places as they are, seen from outside: the znode tree, every broker's metadata cache, the disks.

`take.take` looks, `leftovers.leftovers` judges (pure), `as_json` shows both to scripts. `examine.examine` looks at few
topics only, and `explain.explain` (pure) concludes why they are not gone yet. No controller is asked, and nothing but
Kafka's own protocol and znodes is relied on, so clusters of real Kafka brokers can be surveyed too.
"""

if __name__ != "lethe.survey":
    raise ImportError("import lethe.survey: under its bare name each of its modules would exist twice")
