"""The profiles `pipeline` and `kafka`: the page over what has happened, and real brokers in place of the agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.compose import cluster
from tests.compose.cluster import CONTROLLERS, CORE, DELETED, KAFKA
from tests.compose.progress import expect, say
from tests.compose.project import Project

PIPELINE_LIMIT_S: Final = 1800.0
RECORDS: Final = 1000


def pipeline(project: Project, work_dir: Path) -> None:
    """A survey and a run of the pipeline make a page that tells of every topic that was deleted. Raises Failed."""
    ran = project.try_compose("up", "--no-color", "pipeline", limit_s=PIPELINE_LIMIT_S)
    done = project.container("pipeline")
    expect(ran.code == 0 and done.health == "exited" and done.exit_code == 0, f"the pipeline has failed:\n{ran.said}")
    page = work_dir / "report.html"
    project.docker("cp", f"{done.id}:/data/report/report.html", str(page))
    text = page.read_text(encoding="utf-8")
    expect(text.lower().startswith("<!doctype html>"), "report.html is no page")
    missing = [topic for topic in DELETED if topic not in text]
    expect(not missing, f"report.html tells nothing of {missing}")
    say(f"pipeline: {page.stat().st_size:,} bytes of report.html tell of all {len(DELETED)} topics that were deleted")


def kafka(project: Project) -> None:
    """Real brokers take records and lose their topics under our controller; nothing is left. Raises Failed."""
    services = (*CORE, *KAFKA, *(("grafana",) if project.has_grafana else ()))
    project.up(services, "kafka")
    in_control = cluster.wait_in_control(project)
    say(f"{in_control} has control of {len(KAFKA)} real brokers")
    asked, topic = CONTROLLERS[0], "records"
    cluster.create(project, asked, topic)
    cluster.wait_online(project, asked, (topic,))
    produce(project, KAFKA[0], "kafka-1:9092,kafka-2:9092,kafka-3:9092", topic)
    told = json.loads(project.lethe(asked, "brokers", "list", "--json"))
    ids = sorted(broker["id"] for broker in told["brokers"])
    expect(ids == [11, 12, 13], f"brokers 11, 12 and 13 should be registered, and these are: {ids}")
    took_s = cluster.delete(project, asked, topic)
    say(f"{RECORDS} records were taken by real brokers, and their topic was gone {took_s:.1f} s after it was marked")
    cluster.run_demo(project, "kafka")
    expect(cluster.wait_in_control(project), "one of our controllers should have control still")


def produce(project: Project, service: str, servers: str, topic: str, *options: str) -> None:
    """By Kafka's own console producer, in a broker's container. Raises Failed."""
    records = "".join(f"record {number}\n" for number in range(RECORDS))
    producer = "kafka.tools.ConsoleProducer"
    server = ("--bootstrap-server", servers, *options)
    acknowledged = ("--producer-property", "acks=all")
    java = ("java", "-Xmx128m", "-cp", "/opt/kafka/jars/*", producer)
    project.compose("exec", "-T", service, *java, *server, *acknowledged, "--topic", topic, given=records)
