"""`lethe rescue`: finishes stuck deletions of a cluster under any controller, and hands control back.

First a look from outside at what is stuck and why. If the user agrees, a controller inside this
process takes control and finishes what can be finished. Control goes back in every case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cli.answer import Answer
from lethe.cli.asking import Confirm, ask_user, demand_agreement
from lethe.cli.broker_access import reach_from
from lethe.cli.options import AsJson, CommandConfig, DryRun, Names, TopicNames, Yes, ZooKeeper, given
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import access_variables, with_session

if TYPE_CHECKING:
    from lethe.admin.rescue_run import RescueOptions

QUESTION: Final = "Take control of the cluster and finish what can be finished?"

EvenIfDisabled = Annotated[
    bool,
    typer.Option(
        "--even-if-disabled",
        help="Delete the named topics although delete.topic.enable=false keeps the brokers from it, marked or not.",
    ),
]
Owe = Annotated[
    bool,
    typer.Option(
        "--owe",
        help="Do not wait for brokers that are not registered: what they have is owed, and lethe brokers settle has it "
        "deleted when they are back.",
    ),
]
Forget = Annotated[
    int | None,
    typer.Option(
        "--forget",
        metavar="BROKER",
        min=0,
        help="Give up this broker, which never returns, as lethe brokers forget does.",
        show_default=False,
    ),
]
TimeoutMs = Annotated[int, typer.Option("--timeout-ms", min=1, help="How long to hold control at most.")]
PatienceMs = Annotated[
    int, typer.Option("--patience-ms", min=1, help="Hand control back when nothing has changed for so long.")
]
AskMs = Annotated[int, typer.Option("--broker-timeout-ms", min=1, help="How long to wait for a broker's answer.")]
ControllerId = Annotated[
    int | None,
    typer.Option("--controller-id", min=0, help="Id to control the cluster under; one that no broker has by default."),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        "--inter-broker-protocol",
        metavar="VERSION",
        help="inter.broker.protocol.version of the brokers, where they do not tell it themselves.",
        show_default=False,
    ),
]
Listener = Annotated[
    str | None,
    typer.Option("--listener", help="The brokers' listener for controllers, where they do not tell it themselves."),
]


def rescue(
    zookeeper: ZooKeeper,
    names: Names = None,
    topic: TopicNames = None,
    even_if_disabled: EvenIfDisabled = False,
    owe: Owe = False,
    forget: Forget = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    timeout_ms: TimeoutMs = 300_000,
    patience_ms: PatienceMs = 20_000,
    broker_timeout_ms: AskMs = 2_000,
    controller_id: ControllerId = None,
    inter_broker_protocol: Protocol = None,
    listener: Listener = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Finish the deletions that hang, under any controller, and hand control back.

    Brokers are also asked whether their metadata caches show topics that ZooKeeper does not have; these are dropped.

    Exit code 0 where nothing is stuck any more; 1 where something remains (or, with --dry-run, is stuck) or there was
    no trace of a named topic, with the reason; 3 where nothing seen remains, but a metadata cache or another place was
    not seen; 4 where deletions were still going on when the time was over; 130 where it was interrupted. Control is
    handed back in every case.
    """
    import logging
    import os

    from lethe.admin.rescue_run import RescueOptions

    # The result at the end has the refusals and what the controller quarantined.
    logging.basicConfig(level=logging.ERROR, format="%(message)s")

    async def checked() -> Answer:
        from lethe.admin.rescue_limits import check_options

        options = RescueOptions(
            zookeeper,
            reach_from(command_config),
            given(names, topic),
            even_if_disabled,
            dry_run,
            timeout_ms,
            patience_ms,
            broker_timeout_ms,
            controller_id,
            inter_broker_protocol,
            listener,
            access_variables(os.environ),
            owe,
            forget,
        )
        check_options(options)

        async def command(session: ZooKeeperSession) -> Answer:
            return await rescued(session, options, confirm=None if yes else ask_user, say=note)

        return await with_session(zookeeper, command)

    finish(checked, as_json=as_json)


async def rescued(
    session: ZooKeeperSession, options: RescueOptions, *, confirm: Confirm | None, say: Callable[[str], None]
) -> Answer:
    """Look, ask (`confirm` None agrees), and carry out the rescue. Raises Refusal for what is not allowed, NoCluster,
    SessionLost."""
    from lethe.admin.rescue_limits import refuse_forbidden_rescue
    from lethe.admin.rescue_plan import ExpectedResult, outlook
    from lethe.admin.rescue_run import carry_out, guest_id
    from lethe.admin.rescue_snapshot import (
        look,
        with_caches,
        with_configuration,
        with_forgetting,
        with_owing,
        with_similar,
    )
    from lethe.cli import rescue_show

    reach, limit_ms = options.reach, options.broker_timeout_ms
    seen = await look(session, reach, options.topics or None, limit_ms)
    seen = await with_caches(session, reach, seen, options.topics, limit_ms)
    seen = await with_similar(session, reach, seen, limit_ms)
    if options.owe:
        seen = await with_owing(session, reach, seen, limit_ms)
    if options.forget is not None:
        seen = await with_forgetting(session, seen, options.forget)
    seen = await with_configuration(session, seen, guest_id(options, seen))
    lines = rescue_show.before(seen, even_if_disabled=options.even_if_disabled)
    answer = rescue_show.plan(seen, even_if_disabled=options.even_if_disabled, lines=lines)
    data = rescue_show.data_of(seen, even_if_disabled=options.even_if_disabled, dry_run=False)
    outlooks = [outlook(each, even_if_disabled=options.even_if_disabled) for each in seen.found]
    worth_a_try = (ExpectedResult.FINISHES, ExpectedResult.WAITS, ExpectedResult.NEEDS_WORD)
    is_worth_it = options.forget is not None or seen.zombies or seen.election_rate.are_too_many or seen.caches.ghosts
    if options.dry_run or not (is_worth_it or any(each in worth_a_try for each in outlooks)):
        return answer
    refuse_forbidden_rescue(seen, options, outlooks, data)
    await demand_agreement(lines, QUESTION, confirm, data)
    if confirm is None:
        for line in lines:
            say(line)
    return rescue_show.ended(await carry_out(session, options, seen, say))
