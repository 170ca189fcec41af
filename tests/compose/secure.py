"""The profiles `secure` and `secure-kafka`: the same life of topics over TLS, with logins and rights, and what is
refused. Every password is looked for in what the engine shows of the containers, in their logs and in their processes.
"""

from __future__ import annotations

import json
from typing import Final

from tests.compose import cluster, hardening, monitoring, profiles
from tests.compose.progress import Failed, expect, say
from tests.compose.project import Container, Project

ZOOKEEPER: Final = "secure-zookeeper"
CONTROLLERS: Final = ("secure-controller-1", "secure-controller-2")
AGENTS: Final = ("secure-broker-1", "secure-broker-2", "secure-broker-3")
KAFKA: Final = ("secure-kafka-1", "secure-kafka-2", "secure-kafka-3")
CORE: Final = (ZOOKEEPER, *CONTROLLERS, "secure-prometheus")
ONCE: Final = ("secure-files", "secure-users")
"""They have done their work before the others start."""
DEMO: Final = "secure-demo"
REFUSED: Final = "All three were refused."
_PASSWORDS: Final = ("--entrypoint", "cat", "secure-files", "/data/authority/passwords.json")
_ASK_WITHOUT_TOKEN: Final = """\
import os, ssl, sys, urllib.error, urllib.request
context = ssl.create_default_context(cafile="/data/secrets/ca.pem")
try:
    urllib.request.urlopen(f"https://{os.uname().nodename}:8080/state", timeout=5, context=context)
except urllib.error.HTTPError as refused:
    sys.stdout.write(str(refused.code))
"""
_COMMAND_LINES: Final = """\
import pathlib, sys
for each in pathlib.Path("/proc").glob("[0-9]*"):
    for name in ("cmdline", "environ"):
        try:
            sys.stdout.write((each / name).read_text(errors="replace"))
        except OSError:
            pass
"""


def agents(project: Project) -> None:
    """The profile `secure`: agents, monitoring, the demo. Raises Failed."""
    project.up((*CORE, *AGENTS), "secure", once=ONCE)
    in_control = cluster.wait_in_control(project, CONTROLLERS)
    say(f"{in_control} has control of {len(AGENTS)} agents")
    hardening.check(project)
    monitoring.check_targets(project, "secure-prometheus")
    said = project.inside(in_control, "python", "-c", _ASK_WITHOUT_TOKEN)
    expect(said.output == "401", f"without the token /state should be refused:\n{said.said}")
    run_demo(project)
    no_password_is_shown(project)
    project.down()


def kafka(project: Project) -> None:
    """The profile `secure-kafka`: real brokers take records from a user with rights, and from none without. Raises
    Failed."""
    project.up((*CORE, *KAFKA), "secure-kafka", once=ONCE)
    in_control = cluster.wait_in_control(project, CONTROLLERS)
    say(f"{in_control} has control of {len(KAFKA)} real brokers")
    asked, topic = CONTROLLERS[0], "records"
    cluster.create(project, asked, topic)
    cluster.wait_online(project, asked, (topic,))
    servers = ",".join(f"{each}:9092" for each in KAFKA)
    config = ("--producer.config", "/data/secrets/client.properties")
    profiles.produce(project, KAFKA[0], servers, topic, *config)
    took_s = cluster.delete(project, asked, topic)
    say(f"{profiles.RECORDS} records were taken over SASL_SSL, and their topic was gone {took_s:.1f} s after its mark")
    run_demo(project)
    no_password_is_shown(project)
    expect(cluster.wait_in_control(project, CONTROLLERS), "one of our controllers should have control still")
    project.down()


def run_demo(project: Project) -> None:
    """Topics come and go, and three clients are refused. Raises Failed."""
    said = cluster.run_demo(project, "secure", service=DEMO)
    expect(REFUSED in said, f"the demo has refused nobody:\n{said}")
    say("a wrong password, a missing token and a missing certificate were refused, each with its sentence")


def _log(project: Project, container: Container) -> str:
    """Both outputs of the container's process."""
    ran = project.docker_ran("logs", container.id)
    return ran.output + ran.errors


def no_password_is_shown(project: Project) -> None:
    """No password stands in a container's settings, its log, or its processes' command lines and variables."""
    ran = project.try_compose("--profile", "secure", "run", "--rm", "--no-deps", *_PASSWORDS)
    given: dict[str, str] = json.loads(ran.output) if ran.code == 0 else {}
    if len(given) < 6:
        raise Failed(f"the passwords cannot be read:\n{ran.said}")
    containers = project.containers()
    shown = {f"settings of {each.service}": json.dumps(each.shown) for each in containers}
    shown |= {f"log of {each.service}": _log(project, each) for each in containers}
    for each in containers:
        if each.health != "exited" and each.service != "secure-prometheus":
            shown[f"processes of {each.service}"] = project.inside(each.service, "python", "-c", _COMMAND_LINES).output
    bad = [f"{place} has that for {name}" for place, text in shown.items() for name, p in given.items() if p in text]
    expect(not bad, "a password is shown: " + "; ".join(bad))
    say(f"{len(given)} passwords stand in none of {len(shown)} settings, logs and lists of processes")
