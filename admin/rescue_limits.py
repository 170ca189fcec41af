"""What a rescue refuses to do, and the messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.admin.refusal import Exit, Refusal
from lethe.admin.rescue_plan import ExpectedResult
from lethe.admin.rescue_run import RescueOptions
from lethe.admin.rescue_snapshot import RescueSnapshot
from lethe.protocol.counting import listed
from lethe.protocol.journal import JsonValue
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import topic_name_problem
from lethe.survey.causes import ObservedCause, sentence, unblock

MAX_CAUSES: Final = 4

PAUSED: Final = "Deletions are paused, which a rescue obeys; lethe topics resume-deletions ends that."


def beyond_command(seen: RescueSnapshot) -> str:
    """Return why a rescue does not take control from a controller that commands all brokers."""
    return (
        f"A rescue could not command every broker: {listed(seen.beyond_command, MAX_CAUSES, '; ')}. "
        "It connects as --command-config says."
    )


def unreadable(cause: ObservedCause) -> str:
    """Return why a rescue would take control and delete nothing."""
    return f"A rescue would delete nothing. Every marked topic {sentence(cause, '', 0).strip()}: {unblock(cause, '')}."


def check_options(options: RescueOptions) -> None:
    """Check the options without the cluster. Raises Refusal and ValueError."""
    for name in options.topics:
        problem = topic_name_problem(name)
        if problem is not None:
            raise Refusal(f"topic {name!r}: {problem}", Exit.USAGE)
    if options.even_if_disabled and not options.topics:
        raise Refusal("--even-if-disabled deletes what the cluster keeps: name each topic", Exit.USAGE)
    if options.ibp is not None:
        InterBrokerProtocol.parse(options.ibp)


def refuse_forbidden_rescue(
    seen: RescueSnapshot, options: RescueOptions, outlooks: Sequence[ExpectedResult], data: dict[str, JsonValue]
) -> None:
    """Raise Refusal where a rescue is not allowed, with `data` about what was seen."""
    holder = seen.holder
    if holder is not None and holder.is_kraft:
        raise Refusal("a KRaft controller controls the cluster: Lethe works with ZooKeeper only", data=data)
    if seen.holder_is_lethe:
        raise Refusal(
            "one of Lethe's controllers is active and deletes marked topics itself; lethe explain --all says what it "
            "waits for. What lethe survey finds in metadata caches, a Lethe controller has dropped when it takes over: "
            "lethe controller-resign ends this one's term",
            data=data,
        )
    if seen.beyond_command:
        raise Refusal(beyond_command(seen), data=data)
    if seen.is_paused and seen.found:
        raise Refusal(PAUSED, data=data)
    if (cause := seen.unreadable) is not None:
        raise Refusal(unreadable(cause), data=data)
    if ExpectedResult.NEEDS_WORD in outlooks:
        where = seen.disabled_in_zookeeper or f"the configuration of brokers {', '.join(map(str, seen.disabled_on))}"
        raise Refusal(
            f"delete.topic.enable is false in {where}. Give --even-if-disabled, with --topic for each topic, to delete "
            "them all the same",
            data=data,
        )
    if options.even_if_disabled and seen.disabled_in_zookeeper is not None:
        raise Refusal(
            f"delete.topic.enable is false in {seen.disabled_in_zookeeper}, which a rescue obeys: change it there",
            data=data,
        )
