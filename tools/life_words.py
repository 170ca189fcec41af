"""The text of docs/life-of-one-deletion.md: each kind of step with its reason, and the page around the steps."""

from __future__ import annotations

import textwrap
from typing import Final, NamedTuple

_WIDTH: Final = 120


class Words(NamedTuple):
    """Of one kind of step."""

    title: str
    arrow: str
    """Its line in the picture."""
    why: str


WORDS: Final = {
    "noticed": Words(
        "ZooKeeper tells the controller",
        "children of /admin/delete_topics changed",
        """The controller watches the children of `/admin/delete_topics`. A watch fires once and says only *that*
        something changed.""",
    ),
    "looks": Words(
        "the controller reads the marks, and watches again",
        "read the marks, watch again",
        """The read also arms the watch again, so nothing is missed. The deletion is *queued*. Nothing holds it back
        (no reassignment, no pause), so it *starts* at once.""",
    ),
    "tombstone": Words(
        "every broker forgets the topic",
        "UpdateMetadata: leader −2",
        """Leader -2 is the tombstone: a broker that reads it drops the partition from its metadata cache. It goes to
        every live broker, also to those without a replica. The znodes stay until all have answered, since a later
        controller could not tell them ([decision 0005](decisions/0005-tombstone-must-be-answered.md)). The broker
        epoch makes a broker refuse an order for an earlier incarnation.""",
    ),
    "announce": Words(
        "the replicas are announced once more",
        "LeaderAndIsr",
        """A deletion counts only where the broker has said that it holds the replica ([decision
        0006](decisions/0006-what-counts-as-an-acknowledgement.md)).""",
    ),
    "stop": Words(
        "the replicas stop",
        "StopReplica: stop",
        """First without `delete`: brokers stop serving and fetching the partition. The replicas are OFFLINE. The ISR
        in the state znode stays as it is ([decision 0004](decisions/0004-no-isr-rewrite-for-doomed-replicas.md)). A
        broker gets its requests in order on one connection, so none overtakes the tombstone.""",
    ),
    "delete": Words(
        "the replicas are deleted",
        "StopReplica: delete",
        """Now with `delete`. A broker *renames* the directory to end with `-delete`, and answers; a rename is quick
        and atomic, and after a crash the name still says what to do. The bytes go later. Leader epoch -2 stands for a
        topic in deletion. An error would be tried again ([decision 0007](decisions/0007-errors-are-tried-again.md));
        a dead broker would delay this topic only.""",
    ),
    "removal": Words(
        "the znodes go",
        "multi: check the epoch, delete the topic, delete the mark",
        """All replicas are deleted and all tombstones answered. One multi checks the version of `/controller_epoch`
        and deletes the topic from its leaves up, its configuration, and last the mark, by which another controller
        would finish the deletion ([decision 0010](decisions/0010-znodes-go-in-one-multi.md)).""",
    ),
    "aftermath": Words(
        "ZooKeeper tells of the controller's own work",
        "watches go off, and are set again",
        """The controller's watches on what it deleted fire. It reads the children again, which arms the watches for
        the next topic.""",
    ),
    "other": Words(
        "something that this page has no words for",
        "something else",
        """It was recorded with the rest, and belongs to the usual life of a cluster.""",
    ),
}

TEMPLATE: Final = """\
# The life of one deletion

Written by `make life` from a real run of an embedded ZooKeeper, one controller (1001) and three agents (1, 2, 3) on one
machine. Topic `{topic}`, with one partition on all three brokers, was created, filled and marked for deletion. A
recording proxy stood between the controller and each of the others; the directories were read every two milliseconds.

All times are relative to the mark. The last byte was gone after {seconds:.2f} s, of which {delay_ms} ms are
`log.segment.delete.delay.ms`, the brokers' delay before they remove bytes (Kafka's default is a minute). Without the
proxies the rest is faster.

States are in capitals ([state-machines.md](state-machines.md)). Other words: [glossary.md](glossary.md); the code:
[ARCHITECTURE.md](../ARCHITECTURE.md); questions for this page: [learning.md](learning.md).

## In one picture

```mermaid
sequenceDiagram
    participant O as Operator
    participant Z as ZooKeeper
    participant C as Controller
    participant B as Brokers 1, 2, 3
{arrows}
```

## Before

The topic's id is `{znode_id}` in znodes (base64) and `{topic_id}` in requests.

| znode | data |
|---|---|
{znodes_before}

| broker | on its disk |
|---|---|
{disks_before}

## Step by step

### +0.0 ms: the mark

`lethe topics delete`, Kafka's own tool through a broker, or a person creates `/admin/delete_topics/{topic}`, without
data. The mark is in ZooKeeper, so it outlives every process.

{steps}

## The states meanwhile

From the controller's journal, in whole milliseconds. The partition loses its leader before anything is sent; its
replicas follow as brokers answer, from the green box of this picture through the yellow and the blue ones.

![The states of a replica, and arrows between those that may follow each other](states-of-replicas.svg)

| when | what | |
|---|---|---|
{states}

## On the disks

A directory is renamed before the answer, and emptied and removed after the delay. The controller sees only the rename;
whether the bytes are *reclaimed*, a look at the disks tells (`lethe survey`).

| seen | broker | directories of the topic |
|---|---|---|
{disks}

## After

Nothing of the topic is left in ZooKeeper, in a cache or on a disk. A new topic of the name has another id.

| znode | data |
|---|---|
{znodes_after}
"""
BROKER_STEP: Final = """\
{what} to {peer}; the others get the same with their own broker epoch:

```json
{body}
```

| broker | broker epoch | sent | answered | answer |
|---|---|---|---|---|
{answers}"""


def paragraph(text: str) -> str:
    """Return the text in lines of the usual width."""
    return textwrap.fill(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)
