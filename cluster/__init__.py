"""A local cluster as child processes: a real ZooKeeper, controllers, brokers. For demos, tests and benchmarks."""

if __name__ != "lethe.cluster":
    raise ImportError("import lethe.cluster: under its bare name each of its modules would exist twice")
