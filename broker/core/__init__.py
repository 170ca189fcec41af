"""PURE: the rules by which an agent obeys its controller; how to drive them is written in `broker.core.agent`."""
