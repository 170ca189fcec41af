"""`lethe explain`: why is this topic not gone yet? Asks a Lethe controller, and examines the three places."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from lethe.adapters.http_client import CA_VARIABLE, TOKEN_VARIABLE, HttpCredentials
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_znodes import require_cluster
from lethe.cli.answer import Answer
from lethe.cli.broker_access import reach_from
from lethe.cli.log_dirs import LogDirs, parse_log_dirs
from lethe.cli.options import AsJson, CommandConfig, Names, TopicNames, ZooKeeper, given
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.vocabulary import topic_name_problem
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists

if TYPE_CHECKING:
    from lethe.survey.brokers import AskAbout
    from lethe.survey.evidence import ControllerReport

All = Annotated[bool, typer.Option("--all", help="All topics that are marked for deletion.")]
Watch = Annotated[bool, typer.Option("--watch", help="Keep looking until no topic is marked any more.")]
Without = Annotated[
    bool, typer.Option("--without-controller", help="Do not ask the controller: conclude from what can be seen.")
]
Url = Annotated[
    str | None,
    typer.Option(
        "--controller-url",
        metavar="http[s]://HOST:PORT",
        help="The controller's HTTP port, where /controller does not say it or says one that is not reachable.",
        show_default=False,
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--controller-token-file",
        envvar=TOKEN_VARIABLE,
        help="File with the token that the controller's HTTP port asks for. All commands read the variable.",
        show_default=False,
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--controller-ca-file",
        envvar=CA_VARIABLE,
        help="Certificates (PEM) that sign the controller's, where this machine does not trust it. All commands read "
        "the variable.",
        show_default=False,
    ),
]
TimeoutMs = Annotated[
    int, typer.Option("--timeout-ms", min=1, help="How long to wait for each broker, and for the controller.")
]
IntervalMs = Annotated[int, typer.Option("--interval-ms", min=100, help="How often --watch looks.")]


def explain(
    zookeeper: ZooKeeper,
    names: Names = None,
    topic_names: TopicNames = None,
    every: All = False,
    watch: Watch = False,
    without_controller: Without = False,
    controller_url: Url = None,
    controller_token_file: TokenFileOption = None,
    controller_ca_file: CaFile = None,
    timeout_ms: TimeoutMs = 2_000,
    interval_ms: IntervalMs = 2_000,
    log_dir: LogDirs = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Say why a topic is not gone yet: what it waits for, since when, and what would unblock it.

    Exit code 6 where a marked topic waits for something; 0 where there is something else to explain; 1 where there is
    no trace of the topic, which was deleted or never was; 3 where there is none as far as could be seen, as with a
    broker that is down and whose log directories were not named, and where deletion markers could not be read.
    """

    credentials = HttpCredentials.from_environment(controller_token_file, controller_ca_file)
    topics = given(names, topic_names)
    topic = topics[0] if topics else None

    async def run() -> Answer:
        if bool(topics) is every:
            raise ValueError("name a topic, or give --all")
        if len(topics) > 1:
            raise ValueError(f"explain is about one topic or --all, not about {len(topics)}: {', '.join(topics)}")
        if topic is not None and (problem := topic_name_problem(topic)) is not None:
            raise ValueError(f"topic {topic!r}: {problem}")
        if controller_url is not None and without_controller:
            raise ValueError(
                "--controller-url names the controller to ask, and --without-controller asks none: give one of them"
            )
        if controller_url is not None and (problem := url_problem(controller_url)) is not None:
            raise ValueError(f"--controller-url {controller_url!r} {problem}")
        if not without_controller:
            credentials.check()
        directories = parse_log_dirs(log_dir or ())
        reach = reach_from(command_config)
        return await with_session(zookeeper, lambda session: command(session, reach, directories))

    async def command(session: ZooKeeperSession, reach: BrokerReach, directories: dict[int, list[Path]]) -> Answer:
        from lethe.admin.controllers import ask_active_controller
        from lethe.survey.evidence import ControllerReport

        async def look() -> Answer:
            reported = ControllerReport(problem="it was not to be asked")
            if not without_controller:
                reported = await ask_active_controller(
                    session, topic, controller_url, timeout_ms, credentials=credentials
                )
            return await explained(
                session, reach, topic, reported=reported, timeout_ms=timeout_ms, log_dirs=directories
            )

        if not watch:
            return await look()
        from lethe.cli.explain_watch import watched

        return await watched(look, interval_ms=interval_ms, as_json=as_json)

    finish(run, as_json=as_json)


def url_problem(url: str) -> str | None:
    """Return why the URL is invalid, as a message; None where it is valid."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        is_one = False
    return None if is_one else "is not of the form http://HOST:PORT or https://HOST:PORT"


async def explained(
    session: ZooKeeperSession,
    reach: BrokerReach,
    topic: str | None,
    *,
    reported: ControllerReport | None = None,
    timeout_ms: int = 2_000,
    log_dirs: dict[int, list[Path]] | None = None,
) -> Answer:
    """Explain why the topic is not gone, or (None) why each marked one is not. Raises NoCluster."""
    from lethe.cli import explain_show
    from lethe.survey.examine import evidence_asker, gather_evidence
    from lethe.survey.explain import DeletionVerdict, explain_all
    from lethe.survey.similar import similar_names

    (ids,) = await session.read([Exists(paths.BROKER_IDS)])
    require_cluster(ids)
    ask = evidence_asker(reach, timeout_ms)
    evidence = await gather_evidence(
        session, None if topic is None else [topic], ask, reported=reported, log_dirs=log_dirs
    )
    found = explain_all(evidence)
    if topic is None:
        return explain_show.many(evidence, found)
    has_no_trace = found[0].verdict in (DeletionVerdict.GONE, DeletionVerdict.UNSEEN)
    is_missing = has_no_trace and not evidence.survey.zookeeper.debts
    similar = await similar_names(session, topic, evidence.survey, ask) if is_missing else ()
    return explain_show.one(evidence, found[0], similar)


async def why_waiting(session: ZooKeeperSession, topics: Sequence[str], ask: AskAbout) -> dict[str, tuple[str, ...]]:
    """Return what each of these topics waits for and the remedy, as `explain` says it; topics that do not wait are left
    out."""
    from lethe.admin.controllers import ask_active_controller
    from lethe.cli.explain_show import in_short
    from lethe.survey.examine import gather_evidence
    from lethe.survey.explain import DeletionVerdict, explain_all

    if not topics:
        return {}
    reported = await ask_active_controller(session, topics[0] if len(topics) == 1 else None)
    evidence = await gather_evidence(session, topics, ask, reported=reported)
    return {each.topic: in_short(each) for each in explain_all(evidence) if each.verdict is DeletionVerdict.WAITING}
