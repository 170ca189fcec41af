"""Lethe: a Kafka controller (ZooKeeper mode) whose topic deletions finish, or say what they wait for.

The one package that is installed. In a checkout its rooms are links to the directories of the top level; a wheel holds
the directories themselves (docs/decisions/0056-one-package.md).
"""
