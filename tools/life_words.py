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
        """The controller had asked to be told when the children of `/admin/delete_topics` change. A watch goes off
        once and says only *that* something changed, not what.""",
    ),
    "looks": Words(
        "the controller reads the marks, and watches again",
        "read the marks, watch again",
        """The request that reads the children also arms the watch for the next change, so that nothing falls in
        between. The controller knows now that the topic is marked: its deletion is *queued*. Nothing holds it back
        (no reassignment, no pause, all three brokers alive), so it *starts* at once.""",
    ),
    "tombstone": Words(
        "every broker forgets the topic",
        "UpdateMetadata: leader −2",
        """Leader -2 is the tombstone: whoever reads it drops the partition from its metadata cache, so that no
        client is told about the topic any more. It goes to every live broker, also to those without a replica, and
        the znodes must not go before all have answered: a controller that took over afterwards could no longer know
        that there was something to tell ([decision 0005](decisions/0005-tombstone-must-be-answered.md)). Only the
        broker epoch differs from one broker to the next: an order that was meant for an earlier life of a broker is
        refused.""",
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
        """First without `delete`: nobody serves or fetches the partition any more. In the controller's memory the
        replicas are OFFLINE. The ISR in the state znode stays as it is, since it goes with the topic ([decision
        0004](decisions/0004-no-isr-rewrite-for-doomed-replicas.md)). A broker gets its requests one after the other
        on one connection, so that none of these orders can overtake the tombstone.""",
    ),
    "delete": Words(
        "the replicas are deleted",
        "StopReplica: delete",
        """Now with `delete`. A broker *renames* the directory so that its name ends with `-delete`, and answers: a
        rename is quick and atomic, and after a crash in the middle the name still says what is to be done. The
        bytes go later. Leader epoch -2 stands for a topic that is being deleted. An error here would be tried again
        ([decision 0007](decisions/0007-errors-are-tried-again.md)); a broker that is down would hold up this topic,
        and no other.""",
    ),
    "removal": Words(
        "the znodes go",
        "multi: check the epoch, delete the topic, delete the mark",
        """All replicas are deleted and all tombstones answered. One multi, all or nothing: first a check that this
        still is the controller (else `/controller_epoch` has another version), then the topic from its leaves up,
        its configuration, and last the mark. As long as the mark is there, any controller that takes over knows
        what is left to do ([decision 0010](decisions/0010-znodes-go-in-one-multi.md)).""",
    ),
    "aftermath": Words(
        "ZooKeeper tells of the controller's own work",
        "watches go off, and are set again",
        """The watches that the controller had on what it just deleted go off. It reads the children again, finds
        nothing that it did not know, and its watches are armed for the next topic.""",
    ),
    "other": Words(
        "something that this page has no words for",
        "something else",
        """It was recorded with the rest, and belongs to the usual life of a cluster.""",
    ),
}

TEMPLATE: Final = """\
# The life of one deletion

Written by `make life` from a real run; nothing on this page is made up. An embedded ZooKeeper, one controller (1001)
and three agents (1, 2, 3) ran on one machine. Topic `{topic}`, with one partition on all three brokers, was created,
filled and marked for deletion. A recording proxy stood between the controller and each of the others, and the
directories were looked at every two milliseconds.

All times are relative to the mark. The last byte was gone after {seconds:.2f} s, of which {delay_ms} ms are
`log.segment.delete.delay.ms`, by which brokers wait with the bytes (Kafka's default is a minute). The proxies, and five
processes on one small machine, make the rest slower than it is without them.

Words in capitals are states: [state-machines.md](state-machines.md) has all of them, [glossary.md](glossary.md) the
other words, [ARCHITECTURE.md](../ARCHITECTURE.md) the way through the code. [learning.md](learning.md) has questions to
read this page with, and things to try.

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

Somebody creates `/admin/delete_topics/{topic}`, without data: `lethe topics delete`, Kafka's own tool through a broker,
or a person by hand. That is all that asking for a deletion is. The mark is in ZooKeeper, and not in a request to
somebody's memory, so that it outlives every process that has to do with it.

{steps}

## The states meanwhile

From the controller's journal, which counts whole milliseconds. The partition has no leader and no state any more before
anything is sent; its replicas follow as the brokers answer. Each goes from the green box of this picture through the
yellow and the blue ones, and is forgotten with the topic.

![The states of a replica, and arrows between those that may follow each other](states-of-replicas.svg)

| when | what | |
|---|---|---|
{states}

## On the disks

Renamed before it is acknowledged; emptied after the delay, file by file; then removed. The controller sees nothing of
the latter two. For it the topic is deleted; that it is *reclaimed*, too, only a look at the disks can tell (`lethe
survey`).

| seen | broker | directories of the topic |
|---|---|---|
{disks}

## After

Nothing of the topic is left in ZooKeeper, in a cache or on a disk. Its name can be used again; a topic that takes it is
another one, with another id.

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
