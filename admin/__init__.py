"""Administration of a cluster: the operations of commands, without their options and output.

Operations read and write ZooKeeper or ask brokers, return values, and raise Refusal when they refuse. Options,
confirmation and rendering belong to `cli`.
"""

if __name__ != "lethe.admin":
    raise ImportError("import lethe.admin: under its bare name each of its modules would exist twice")
