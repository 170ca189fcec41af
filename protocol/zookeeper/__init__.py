"""ZooKeeper as values: paths, znodes, operations and their outcomes. No client."""
