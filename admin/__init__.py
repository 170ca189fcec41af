"""Administration of a cluster: what commands do, without how it is asked for or shown.

Operations read and write ZooKeeper or ask brokers, return values, and raise Refusal for what must not be done. Options,
confirmation and rendering belong to `cli`.
"""

if __name__ != "lethe.admin":
    raise ImportError("import lethe.admin: under its bare name each of its modules would exist twice")
