"""A local cluster as child processes: a real ZooKeeper, controllers, broker agents. For demos, tests and benchmarks."""
