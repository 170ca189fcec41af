"""What a person can do, where more than one layer says it: in words that are the same wherever they are read, and that
never leave out the condition under which the advice is safe.

The texts may name `{broker}` (an id), and are filled by whoever shows them.
"""

from __future__ import annotations

from typing import Final

BRING_BACK: Final = (
    "start broker {broker} with its disks "
    "(an empty one with its id only where lethe brokers describe {broker} allows it)"
)
"""For a broker that is away. An empty broker answers for deleted replicas, having none; but of a living partition whose
last copy in sync was on that id it is elected leader, with nothing, and the other replicas are cut down to that."""

CLEAR_CACHE: Final = (
    "restart broker {broker}: then it forgets the topic, which no change of Kafka's controllers brings about; or, "
    "without a restart, lethe rescue has it dropped; where Lethe's controller is active, lethe controller-resign: the "
    "next one asks every broker what it shows"
)
"""For a topic that exists only in a broker's metadata cache. Brokers in ZooKeeper mode merge what a controller tells
them: what it does not name stays, and Kafka's controller cannot name what it does not know. Lethe's asks brokers for
what they show when it takes over."""

CLEAR_OLD_INCARNATION: Final = (
    "restart broker {broker}: then it knows the topic that there is now and no other; a change of controller tells it "
    "of that one too, but leaves the partitions that only the earlier one had"
)
"""For an earlier topic of a name that is in use again, for the same reason: what is named is overwritten, the rest
stays."""

REMAKE_DIRECTORY: Final = (
    "see that another live broker is in the ISR, then restart broker {broker} with a controlled shutdown: it makes the "
    "directory anew and fetches it from the leader; alone in the ISR it would lead with nothing, and every other "
    "replica would be cut down to that"
)
"""For a replica without its directory. A change of controller is no milder: a broker that is told to lead what it has
no directory for leads with an empty one."""
