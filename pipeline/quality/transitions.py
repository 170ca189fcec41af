"""Rules on the states of partitions and replicas.

A transition is legal if the controller's tables allow it (`controller.core.transitions`). A history is continuous if
each transition begins in the end state of the one before it. A controller changes states without a line in a few cases,
in which a history restarts:

* a tenure begins: every replica is Online or, where its broker is absent, DeletionIneligible; every partition is what
  its znode says;
* a topic is forgotten (its deletion is done, or another process removed its znode): all is NonExistent;
* a topic that cannot be read is deleted all the same: as when a tenure begins;
* a replica that was announced to no broker, or that its broker was told to drop, is New when its deletion starts;
* one that was placed on a controller is on no disk, and counts as deleted: it has a line, but no transition.

Histories are compared per run of a process, if a step is on the same day as the one before it or on the next day. To
shuffle little data, a history is identified by a hash, and the lines are looked up only for the few suspect histories.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.controller.core.deletion_memory import KEEPING
from lethe.controller.core.transitions import PARTITION_TRANSITIONS, REPLICA_TRANSITIONS, PartitionState, ReplicaState
from lethe.pipeline.quality.evidence import (
    Evidence,
    SharedFrames,
    explains_missing,
    gaps,
    is_next_day,
    number,
    run,
    unhosted_replicas,
)
from lethe.pipeline.quality.ranges import MOST_BROKERS, are_valid, numbers_in
from lethe.pipeline.transforms.journal_records import topic_of_subject
from lethe.protocol.journal import EventRecordType

_REPLICA: Final = "replica"
_NO_BROKER: Final = -1
_SUSPECT: Final = ("partition", "broker", "seq", "seq_before", "time_before", "left_in")
_FIRST: Final = (
    # The states that are set without a line, and the one of what is not there.
    f"replica {ReplicaState.ONLINE.name}",
    f"replica {ReplicaState.DELETION_INELIGIBLE.name}",
    f"replica {ReplicaState.NEW.name}",
    f"replica {ReplicaState.NON_EXISTENT.name}",
    *(f"partition {state.name}" for state in PartitionState),
)
_CODES: Final = {
    **{f"replica {state.name}": int(state) for state in ReplicaState},
    **{f"partition {state.name}": 100 + int(state) for state in PartitionState},
}
"""A number for each state of each machine: replicas from 0, partitions from 100."""
_BEGUN: Final = ("begun_source", "begun_run", "begun_seq", "begun_topic", "begun_broker")
_DELETED: Final = f"replica {ReplicaState.DELETION_SUCCESSFUL.name}"


def transitions(events: DataFrame) -> DataFrame:
    """Return one row per record and set of partitions: `source, run, seq, id, time, topic, machine, partitions,
    brokers, before, after`. `brokers` are ranges; null for partitions."""
    of_one_broker = F.struct(F.col("said.broker").cast("string").alias("brokers"), "said.partitions")
    on = F.coalesce("said.replicas", F.array(of_one_broker))
    return (
        events.where(_says_states() & F.col("source").startswith("/lethe/controller/"))
        .select("source", "id", "time", "subject", "said", F.explode(on).alias("on"))
        .select(
            "source",
            run().alias("run"),
            number().alias("seq"),
            "id",
            "time",
            topic_of_subject().alias("topic"),
            _machine(),
            F.col("on.partitions").alias("partitions"),
            F.col("on.brokers").alias("brokers"),
            "said.before",
            "said.after",
        )
    )


def _machine() -> Column:
    """Return the record's state machine: answers do not name it."""
    return F.coalesce("said.machine", F.lit(_REPLICA)).alias("machine")


def _says_states() -> Column:
    """Return whether a record is a transition. An answer that counts is one, if it names the states: in older journals
    a transition followed it."""
    kind = F.col("type")
    is_answer = (kind == EventRecordType.ACK.value) & F.col("said.after").isNotNull()
    return (kind == EventRecordType.TRANSITION.value) | is_answer


# --- legality -----------------------------------------------------------------------------------------------------


def legal_transitions() -> tuple[str, ...]:
    """Every transition that the controller's tables allow, as `replica ONLINE OFFLINE`."""
    replica = (f"replica {b.name} {after.name}" for after, befores in REPLICA_TRANSITIONS.items() for b in befores)
    partition = (
        f"partition {b.name} {after.name}" for after, befores in PARTITION_TRANSITIONS.items() for b in befores
    )
    return tuple(sorted(chain(replica, partition)))


def illegal_transitions() -> Column:
    """Return the problem of a record with a transition that the state machines do not have; null for other records."""
    machine, said = _machine(), F.col("said")
    step = F.concat_ws(" ", machine, said["before"], said["after"])
    told = F.format_string(
        "%s: %s to %s is no transition of a %s",
        _subject_of(
            machine,
            topic_of_subject(),
            F.coalesce(said["partitions"], F.concat_ws(",", said["replicas"]["partitions"])),
            F.coalesce(said["broker"].cast("string"), F.concat_ws(",", said["replicas"]["brokers"])),
        ),
        said["before"],
        said["after"],
        machine,
    )
    return F.when(_says_states() & ~step.isin(*legal_transitions()), told)


def _subject_of(machine: Column, name: Column, partitions: Column, brokers: Column) -> Column:
    on = F.when(brokers != "", F.concat(F.lit(" on "), brokers))
    return F.concat(F.format_string("%s/%s-%s", machine, name, partitions), F.coalesce(on, F.lit("")))


# --- continuity ---------------------------------------------------------------------------------------------------


def discontinuous(evidence: Evidence, shared: SharedFrames) -> DataFrame:
    """Return transitions whose first state is not the last state of the transition before."""
    events = evidence.controller_events
    shown = (
        events.withColumn("line", F.xxhash64("source", "id"))
        # Without suspects, the usual case, nothing is read again.
        .join(F.broadcast(_suspects(events)), ["line"], "inner")
        .select(
            "source",
            run().alias("run"),
            "time",
            topic_of_subject().alias("topic"),
            _machine(),
            "said.before",
            "said.after",
            *_SUSPECT,
        )
        .transform(_with_known_start, shared.rare)
        .transform(_without_gaps, shared.rare)
    )
    return shown.transform(_without_restarts, _restarts(evidence, shared)).select(
        _subject_of(
            F.col("machine"),
            F.col("topic"),
            F.col("partition").cast("string"),
            F.nullif(F.col("broker"), F.lit(_NO_BROKER)).cast("string"),
        ).alias("subject"),
        "time",
        F.when(
            F.col("left_in").isNull(), F.format_string("its first transition in this process begins in %s", "before")
        )
        .when(F.col("left_in").isNotNull(), F.format_string("left in %s, and goes on from %s", _state_name(), "before"))
        .alias("detail"),
        F.array_compact(F.array(_line_of("seq_before"), _line_of("seq"))).alias("event_ids"),
    )


def _suspects(events: DataFrame) -> DataFrame:
    """Return steps that do not continue the one before, gaps and restarts included: `line` and _SUSPECT."""
    states = _state_numbers()
    brokers = F.when(F.col("brokers").isNull(), F.array(F.lit(_NO_BROKER))).otherwise(numbers_in("brokers"))
    of_history = Window.partitionBy("history")
    # Where all lines of a history name the same range of partitions, one stands for all of them: their steps are equal.
    first, last = F.min("partitions").over(of_history), F.max("partitions").over(of_history)
    is_alike = (first == last) & ~first.contains(",")
    steps = (
        transitions(events)
        .where(are_valid("partitions") & (F.col("brokers").isNull() | are_valid("brokers", below=MOST_BROKERS)))
        .withColumn("broker", F.explode(brokers))
        .select(
            _history().alias("history"),
            "broker",
            "partitions",
            "seq",
            "time",
            F.xxhash64("source", "id").alias("line"),
            states[F.concat_ws(" ", "machine", "before")].alias("begins_in"),
            states[F.concat_ws(" ", "machine", "after")].alias("ends_in"),
        )
        .withColumn("partition", F.when(is_alike, F.array(F.lit(None).cast("int"))).otherwise(numbers_in("partitions")))
        .withColumn("partition", F.explode("partition"))
    )
    in_order = Window.partitionBy("history", "partition").orderBy("seq")
    before = {"seq_before": "seq", "time_before": "time", "left_in": "ends_in"}
    every = F.when(F.col("partition").isNull(), numbers_in("partitions")).otherwise(F.array("partition"))
    return (
        steps.withColumns({name: F.lag(of).over(in_order) for name, of in before.items()})
        .where(_is_suspect())
        .where(F.col("time_before").isNull() | is_next_day(F.to_date("time"), F.to_date("time_before")))
        .withColumn("partition", F.explode(every))
        .select("line", *_SUSPECT)
    )


def _line_of(seq: str) -> Column:
    """Return the name of a record of the same run, or null."""
    identity = F.concat(F.col("run"), F.lit("-"), F.col(seq).cast("string"))
    return F.concat(F.col("source"), F.lit(" "), identity)


def _history() -> Column:
    return F.xxhash64("source", "run", "topic", "machine", "broker")


def _state_numbers() -> Column:
    """Return a map from `replica ONLINE` to its number."""
    return F.create_map(*[F.lit(each) for each in chain.from_iterable(_CODES.items())])


def _state_name() -> Column:
    names = {number: name.split(" ")[1] for name, number in _CODES.items()}
    return F.create_map(*[F.lit(each) for each in chain.from_iterable(names.items())])[F.col("left_in")]


def _is_suspect() -> Column:
    begins_in, left_in = F.col("begins_in"), F.col("left_in")
    silently_new = (left_in == int(ReplicaState.NON_EXISTENT)) & (begins_in == int(ReplicaState.NEW))
    does_not_follow = left_in.isNotNull() & (left_in != begins_in) & ~silently_new
    return does_not_follow | (left_in.isNull() & ~begins_in.isin([_CODES[name] for name in _FIRST]))


def _with_known_start(suspects: DataFrame, rare: DataFrame) -> DataFrame:
    """Drop first known steps of runs whose first record is unknown."""
    known = rare.where(F.col("seq") == 1).select("source", "run", F.col("time").alias("known_from"))
    return suspects.join(F.broadcast(known), ["source", "run"], "left").where(
        F.col("left_in").isNotNull() | is_next_day(F.to_date("time"), F.to_date("known_from"))
    )


def _without_gaps(suspects: DataFrame, rare: DataFrame) -> DataFrame:
    """Drop steps beside a recorded gap."""
    first = F.coalesce("seq_before", F.lit(0)) + 1
    since = F.coalesce("time_before", "known_from")
    inside = explains_missing(first, F.col("seq"), since, F.col("time"))
    return suspects.join(F.broadcast(gaps(rare)), inside, "left_anti")


def _without_restarts(suspects: DataFrame, beginnings: DataFrame) -> DataFrame:
    """Drop steps whose history restarted in between, in an allowed first state."""
    begins_in = F.concat_ws(" ", "machine", "before")
    is_unasked = (F.col("begun_broker") == F.col("broker")) & (begins_in == _DELETED)
    anew = (
        (F.col("source") == F.col("begun_source"))
        & (F.col("run") == F.col("begun_run"))
        & (F.col("begun_seq") > F.coalesce("seq_before", F.lit(0)))
        & (F.col("begun_seq") < F.col("seq"))
        & (F.col("begun_topic").isNull() | (F.col("begun_topic") == F.col("topic")))
        & F.when(F.col("begun_broker").isNotNull(), is_unasked).otherwise(begins_in.isin(*_FIRST))
    )
    return suspects.join(beginnings, anew, "left_anti")


def _restarts(evidence: Evidence, shared: SharedFrames) -> DataFrame:
    """Return restarts of histories, with the columns _BEGUN. A null topic means all topics; a null broker means all
    replicas and partitions."""
    what, kind = F.col("said.what"), F.col("type")
    of_all = (kind == EventRecordType.ELECTION.value) & (what == "elected")
    of_topic = ((kind == EventRecordType.REFUSAL.value) & (what == KEEPING)) | (kind == EventRecordType.SET_ASIDE.value)
    is_controller = F.col("source").startswith("/lethe/controller/")
    no_broker = F.lit(None).cast("int").alias("broker")
    rare = shared.rare.where(is_controller & (of_all | of_topic)).select(
        "source", "run", "seq", F.when(~of_all, topic_of_subject()).alias("topic"), no_broker
    )
    line = F.col("done_line")
    done = evidence.recent_deletions.where(line.isNotNull()).select(
        F.substring_index(line, " ", 1).alias("source"),
        F.regexp_extract(line, " ([^ ]*)-[^-]*$", 1).alias("run"),
        F.substring_index(line, "-", -1).try_cast("bigint").alias("seq"),
        "topic",
        no_broker,
    )
    deleted = unhosted_replicas(shared.rare).select("source", "run", "seq", "topic", "broker")
    return rare.unionByName(done).unionByName(deleted).toDF(*_BEGUN)


# --- ranges -------------------------------------------------------------------------------------------------------


def impossible_ranges() -> Column:
    """Return the problem of a record with impossible partitions or brokers; null for other records."""
    partitions, replicas = F.col("said.partitions"), F.col("said.replicas")
    are_possible = F.forall(
        replicas, lambda on: are_valid(on["brokers"], below=MOST_BROKERS) & are_valid(on["partitions"])
    )
    names_them = F.col("type").isin(
        EventRecordType.TRANSITION.value, EventRecordType.ACK.value, EventRecordType.BYTES_FREED.value
    )
    are_wrong = F.when(partitions.isNull() & replicas.isNotNull(), ~F.coalesce(are_possible, F.lit(False)))
    named = F.coalesce(partitions, F.get_json_object("data", "$.replicas"))
    told = F.format_string("partitions %s", F.substring(named, 1, 200))
    return F.when(names_them & are_wrong.otherwise(~are_valid(partitions)), told)
