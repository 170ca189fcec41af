"""The differences between what Kafka's controller says to its brokers and what ours says, each with its reason.

A difference that is not in this table fails the tests, and so does one in the table that is found no more. The rules
take it out as narrowly as they can: whatever else is different in the same request stays, and is then unlisted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, LEADER_NONE
from tests.wire.compare import Difference, Pair
from tests.wire.said import Row, Said, Stream, joined

_IN_THE_MIDDLE: Final = "control changes hands in the middle of it"
_AT_THE_END: Final = "the dead broker returns"
_EPOCHS: Final = ("leader_epoch", "partition_epoch")
Rewrite = Callable[[str, Row, Row], Row]
"""Takes the partition, what Kafka says of it and what we say; returns what Kafka would say without the difference."""


def added_replica_told_once(stream: Stream, kafka: list[Said], lethe: list[Said]) -> Pair:
    """Of two LeaderAndIsr of Kafka's that make this broker a replica the first goes, where the second was refused for
    its equal epoch; the answer of the first stays."""
    for at, first in enumerate(kafka):
        if first.api is not ApiKey.LEADER_AND_ISR or not _adds(first, stream.broker):
            continue
        for again, second in enumerate(kafka[at + 1 :], at + 1):
            refused = dict.fromkeys(second.about, ErrorCode.STALE_CONTROLLER_EPOCH.value)
            if second.answer == {"error": 0, **refused} and _but(second, "is_new") == _but(first, "is_new"):
                kafka = [*kafka[:again], replace(second, answer=first.answer), *kafka[again + 1 :]]
                return kafka[:at] + kafka[at + 1 :], lethe
    return kafka, lethe


def isr_told_before_the_end(_: Stream, kafka: list[Said], lethe: list[Said]) -> Pair:
    """An UpdateMetadata of ours goes that Kafka has not and that says nothing but the ISR from which the request behind
    it goes on."""
    for at, each in enumerate(lethe[:-1]):
        told, behind = each.about, lethe[at + 1].about
        if (
            each.api is ApiKey.UPDATE_METADATA
            and each not in kafka
            and told
            and all(_epoch(behind.get(name, {})) == _epoch(row) + 1 for name, row in told.items())
        ):
            return kafka, lethe[:at] + lethe[at + 1 :]
    return kafka, lethe


def unclean_leaders_apart(_: Stream, kafka: list[Said], lethe: list[Said]) -> Pair:
    """LeaderAndIsr and UpdateMetadata of ours, twice, become one of each: where Kafka has them as one, and the second
    is about leaders that are alone in their ISR."""
    for at in range(len(lethe) - 3):
        order, told, later, told_later = lethe[at : at + 4]
        apis = [each.api for each in (order, told, later, told_later)]
        if apis == [ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA] * 2 and all(
            row["isr"] == [row["leader"]] for row in later.about.values()
        ):
            both = [_both(order, later), _both(told, told_later)]
            if all(each in kafka for each in both):
                return kafka, lethe[:at] + both + lethe[at + 4 :]
    return kafka, lethe


def stopped_with_the_new_epoch(_: Stream, kafka: list[Said], lethe: list[Said]) -> Pair:
    """StopReplica without deletion carries the epoch after the replica has left the ISR, not before."""

    def rewrite(_: str, theirs: Row, ours: Row) -> Row:
        is_it = not ours["delete"] and 0 <= theirs["leader_epoch"] == ours["leader_epoch"] - 1
        return {**theirs, "leader_epoch": ours["leader_epoch"]} if is_it else theirs

    return _paired(ApiKey.STOP_REPLICA, kafka, lethe, rewrite), lethe


def looked_at_and_not_announced(stream: Stream, kafka: list[Said], lethe: list[Said]) -> Pair:
    """Once control has changed hands, LeaderAndIsr of Kafka's that names no leader for what is being deleted goes where
    we have none; of ours DescribeLogDirs and the StopReplica without partitions behind it."""
    if stream.phase not in (_IN_THE_MIDDLE, _AT_THE_END):
        return kafka, lethe
    doomed = _tombstoned(lethe)

    def announces(said: list[Said]) -> bool:
        return any(each.api is ApiKey.LEADER_AND_ISR and each.about.keys() & doomed.keys() for each in said)

    looks = [each for each in lethe if each.api is ApiKey.DESCRIBE_LOG_DIRS or _is_fence(each)]
    if looks:
        lethe = joined(each for each in lethe if each not in looks)
    if announces(kafka) and not announces(lethe):
        kafka = joined(each for said in kafka if (each := _without(said, doomed)) is not None)
    return kafka, lethe


def _is_fence(said: Said) -> bool:
    return said.api is ApiKey.STOP_REPLICA and not said.about


def _without(said: Said, doomed: Mapping[str, None]) -> Said | None:
    """A LeaderAndIsr without these partitions; None where nothing is left of it."""
    if said.api is not ApiKey.LEADER_AND_ISR:
        return said
    gone = [name for name, row in said.about.items() if name in doomed and row["leader"] == LEADER_NONE]
    about = {name: row for name, row in said.about.items() if name not in gone}
    answer = {name: error for name, error in said.answer.items() if name not in gone}
    return replace(said, about=about, answer=answer) if about else None


def doomed_keep_their_state(_: Stream, kafka: list[Said], lethe: list[Said]) -> Pair:
    """What Kafka says of a partition that is being deleted has a later controller epoch, and, in a LeaderAndIsr without
    a leader, a higher leader epoch."""
    doomed = _tombstoned(lethe)

    def led(partition: str, theirs: Row, ours: Row) -> Row:
        is_it = partition in doomed and theirs["leader"] == ours["leader"] == LEADER_NONE
        return _lowered(theirs, ours, *_EPOCHS, "controller_epoch") if is_it else theirs

    def known(_: str, theirs: Row, ours: Row) -> Row:
        is_it = theirs["leader"] == ours["leader"] == LEADER_DURING_DELETE
        return _lowered(theirs, ours, "controller_epoch") if is_it else theirs

    kafka = _paired(ApiKey.LEADER_AND_ISR, kafka, lethe, led)
    return _paired(ApiKey.UPDATE_METADATA, kafka, lethe, known), lethe


def deleted_without_the_dead(stream: Stream, kafka: list[Said], lethe: list[Said]) -> Pair:
    """After control has changed hands we stop and delete where we can, Kafka when the dead broker is back: StopReplica
    about what is being deleted goes, to brokers that have lived all the time and from one controller only."""
    doomed = _tombstoned(lethe)

    def rest(said: list[Said]) -> list[Said]:
        return [each for each in said if each.api is not ApiKey.STOP_REPLICA or not each.about.keys() <= doomed.keys()]

    if stream.phase == _IN_THE_MIDDLE and not _has(ApiKey.STOP_REPLICA, kafka):
        return kafka, rest(lethe)
    has_come_back = _has(ApiKey.LEADER_AND_ISR, kafka)
    if stream.phase == _AT_THE_END and not has_come_back and not _has(ApiKey.STOP_REPLICA, lethe):
        return rest(kafka), lethe
    return kafka, lethe


DIFFERENCES: Final = (
    Difference(
        "An added replica is announced once",
        "tells a broker twice that it has a new replica: with the LeaderAndIsr to all replicas that begins a "
        "reassignment, and again on its own. The broker refuses the second for its equal leader epoch (before 2.7 the "
        "first does not call the replica new).",
        "tells the brokers that have the partition first, and the new one once, as new.",
        "The second changes nothing where it is refused. That the replica is called new from the beginning is what "
        "KAFKA-10314 asks for.",
        "0016-reassignments.md",
        added_replica_told_once,
    ),
    Difference(
        "A leader that was not in sync is announced after the others",
        "elects all leaders together when a broker comes, also those that were not in sync.",
        "elects those that were in sync and tells brokers of them, reads the settings of the topics that are left, and "
        "elects for these what they allow.",
        "Whether any replica may lead is asked only where no replica in sync is alive, and nobody else waits for the "
        "answer.",
        None,
        unclean_leaders_apart,
    ),
    Difference(
        "A removed replica is stopped under the epoch after it",
        "puts StopReplica into the batch before it takes the replica out of the ISR, with the leader epoch from before "
        "that write.",
        "sends it when the write is done, with the leader epoch that was written.",
        "Requests leave when the outcome of a write is known. Brokers stop a replica under any epoch that is higher "
        "than the one they know, and 2.6 to 3.3 refuse an equal one, so that the higher one is the safer.",
        None,
        stopped_with_the_new_epoch,
    ),
    Difference(
        "The ISR change that ends a reassignment is told to all (before 2.7)",
        "watches the state znode of every partition that is being reassigned, and goes on as soon as the leader has "
        "written the ISR.",
        "goes on when the leader tells of it in `/isr_change_notification`, some seconds later, and tells all brokers "
        "of that ISR first.",
        "A watch for every partition that moves costs a round trip each; the leader tells of every change anyway. What "
        "is told is true, and brokers get the final state right behind it.",
        None,
        isr_told_before_the_end,
    ),
    Difference(
        "What is being deleted is not announced to brokers",
        "announces the replicas of topics in deletion with LeaderAndIsr after a change of control and to a broker that "
        "comes back. Brokers create again what they have deleted already.",
        "sends DescribeLogDirs and a StopReplica without partitions behind the StopReplica that deletes.",
        "Log directories that work after the deletion prove it, and nothing is created again.",
        "0053-log-directories-prove-a-deletion.md",
        looked_at_and_not_announced,
    ),
    Difference(
        "The state of what is being deleted stays as it was",
        "takes each replica out of the ISR when it stops it for deletion, and raises the leader epoch each time. Where "
        "there is nothing to take out it puts its own epoch in front of what it read. A broker that comes back "
        "meanwhile gets these epochs.",
        "leaves the state znodes of such topics alone.",
        "The writes decide nothing and cost more than all the rest of a deletion.",
        "0004-no-isr-rewrite-for-doomed-replicas.md",
        doomed_keep_their_state,
    ),
    Difference(
        "A new controller deletes where it can, whoever is dead",
        "begins no deletion after a change of control while a broker with a replica is dead; it waits for that broker.",
        "deletes the replicas of the brokers that live at once.",
        "A dead broker holds up nothing but its own replicas.",
        "0009-deletion-starts-on-live-replicas.md",
        deleted_without_the_dead,
    ),
)


def _paired(api: ApiKey, kafka: list[Said], lethe: list[Said], rewrite: Rewrite) -> list[Said]:
    """Kafka's, where the n-th request of that kind is rewritten by our n-th; only partitions that both name."""
    ours = iter([each for each in lethe if each.api is api])
    found = []
    for each in kafka:
        other = next(ours, None) if each.api is api else None
        if other is not None:
            about: Mapping[str, Row] = {
                name: rewrite(name, row, other.about[name]) if name in other.about else row
                for name, row in each.about.items()
            }
            found.append(replace(each, about=about))
        else:
            found.append(each)
    return found


def _tombstoned(said: list[Said]) -> dict[str, None]:
    """Partitions that UpdateMetadata takes out of caches."""
    return {
        name: None
        for each in said
        if each.api is ApiKey.UPDATE_METADATA
        for name, row in each.about.items()
        if row["leader"] == LEADER_DURING_DELETE
    }


def _both(one: Said, other: Said) -> Said:
    """One request for both, which are about different partitions."""
    head = dict(one.head)
    if "live leaders" in head:
        head["live leaders"] = sorted(
            {**dict.fromkeys(head["live leaders"]), **dict.fromkeys(other.head["live leaders"])}
        )
    return replace(one, head=head, about={**one.about, **other.about}, answer={**one.answer, **other.answer})


def _has(api: ApiKey, said: list[Said]) -> bool:
    return any(each.api is api for each in said)


def _lowered(theirs: Row, ours: Row, *names: str) -> Row:
    """With our values, where none of theirs is lower."""
    if any(theirs[name] < ours[name] for name in names):
        return theirs
    return {**theirs, **{name: ours[name] for name in names}}


def _adds(said: Said, broker: int) -> bool:
    return bool(said.about) and all(broker in row["adding"] for row in said.about.values())


def _but(said: Said, name: str) -> dict[str, Row]:
    return {partition: {key: row[key] for key in row if key != name} for partition, row in said.about.items()}


def _epoch(row: Row) -> int:
    found = row.get("partition_epoch", row.get("zk_version", -1))
    assert isinstance(found, int)
    return found
