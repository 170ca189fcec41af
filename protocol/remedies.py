"""Remedies that several layers show, each with the condition under which it is safe.

A text may contain the fields `{broker}` (an id) and `{path}`, which the caller fills in.
"""

from __future__ import annotations

from typing import Final

IF_IT_LASTS: Final = "if it lasts, see what the broker does; the controller repeats the request"
REPAIR_ZNODE: Final = (
    "repair the znode, and where its access list was wrong, have the controller read it again: "
    "lethe controller-resign; or, if the controller may remove the znode, have it deleted as it is: "
    "lethe topics delete --unreadable --topic {topic}"
)
"""ZooKeeper does not notify of a changed access list, nor of any change of a znode that could not be read."""
MEND: Final = "save a copy of the znode{path}, then repair it, or remove it with all settings in it"
THEN_ALL_GO: Final = (
    "All marked topics are deleted then, unless delete.topic.enable is false; that znode may have set it"
)
ASKED_AGAIN: Final = (
    "nothing, unless it lasts: then see the logs of the controller and the broker; Kafka's own controller asks "
    "again only when the broker restarts or another controller takes over (lethe controller-resign)"
)
RAISE_PACE: Final = (
    "nothing; or raise lethe.deletion.topics.per.second and lethe.deletion.bytes.per.second, which the controller "
    "follows at once"
)

BRING_BACK: Final = (
    "start broker {broker} with its disks "
    "(an empty one with its id only where lethe brokers describe {broker} allows it)"
)
"""For a broker that is away.

An empty broker acknowledges the deletion of replicas, because it has none. But if a live partition's last in-sync copy
was on this broker id, the empty broker is elected leader, and the other replicas truncate to nothing.
"""

FIX: Final = "lethe doctor --fix"
"""For a znode that names no existing topic. The doctor writes only if that still holds, and saves a copy first. By hand
the whole znode would go, such as `/admin/reassign_partitions` with the entries of living topics."""

FIX_SETTINGS: Final = f"{FIX} --only config_without_topic"
"""For settings of no existing topic: they may be wanted for one that is to be created."""

CLEAR_CACHE: Final = (
    "restart broker {broker}: then it forgets the topic, which no change of Kafka's controllers brings about; or, "
    "without a restart, lethe rescue has it dropped; where Lethe's controller is active, lethe controller-resign: the "
    "next one asks every broker what it shows"
)
"""For a topic that exists only in a broker's metadata cache.

Brokers in ZooKeeper mode merge metadata updates: an entry that no update names stays. Kafka's controller cannot name
a topic that it does not have. Lethe's controller reads the brokers' metadata caches when it takes over.
"""

CLEAR_OLD_INCARNATION: Final = (
    "restart broker {broker}: then its cache has only the present topic; a change of Kafka's controllers "
    "leaves the partitions that only the earlier one had"
)
"""For an earlier topic whose name is in use again. An update overwrites only the partitions that it names."""

REMAKE_DIRECTORY: Final = (
    "see that another live broker is in the ISR, then restart broker {broker} with a controlled shutdown: it makes the "
    "directory anew and fetches it from the leader; alone in the ISR it would lead with nothing, and every other "
    "replica would be cut down to that"
)
"""For a replica without its directory. A controller change is just as dangerous: a broker that becomes leader without a
directory leads with an empty log."""
