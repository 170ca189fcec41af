"""docker-compose.yml and the images, as far as their text shows; `make compose-test` starts them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest
import yaml

from lethe.adapters.config_environment import environment_settings, unknown_variables
from lethe.adapters.properties import unknown_names
from lethe.broker.runtime.configuration import BROKER_SCHEMA
from lethe.controller.runtime.configuration import CONTROLLER_SCHEMA
from tests.unit.deploy.compose_secure import program

files = program("files")
ROOT: Final = Path(__file__).parents[3]
COMPOSE: Final = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE: Final = (ROOT / "deploy" / "Dockerfile").read_text()
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGES: Final = re.findall(r'^ +image: "?(?:\$\{\w+:-)?([^"}\s]+)', COMPOSE, re.MULTILINE)
AGENTS: Final = re.findall(r"^  broker-[123]:$", COMPOSE.partition("\nvolumes:\n")[0], re.MULTILINE)


def test_images_are_named_by_version_and_by_no_registry() -> None:
    assert {image.partition(":")[0] for image in IMAGES} == {
        "lethe",
        "lethe-zookeeper",
        "lethe-kafka",
        "lethe-pipeline",
        "prom/prometheus",
        "grafana/grafana",
    }
    bases = re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE, re.MULTILINE)
    for image in (*IMAGES, *bases):
        name, _, tag = image.partition(":")
        assert re.fullmatch(r"v?\d+\.\d+\.\d+(-[a-z-]+)?", tag), image
        assert "." not in name.partition("/")[0], image


def test_images_of_our_own_have_our_version_and_the_base_is_said_once_and_the_same() -> None:
    assert {f"lethe:{VERSION}", f"lethe-pipeline:{VERSION}"} <= {*IMAGES}
    (base,) = re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert {*re.findall(r"PYTHON_IMAGE:-([^}]+)\}", COMPOSE)} == {base}
    assert f'PYTHON_IMAGE = "{base}"' in (ROOT / "tests" / "compose" / "__main__.py").read_text()


def test_the_jars_are_of_the_versions_that_the_images_are_named_after() -> None:
    (kafka,) = re.findall(r"^ARG KAFKA=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert f"lethe-kafka:{kafka}" in IMAGES
    assert f"KAFKA: {kafka}}}" in COMPOSE


def test_pages_are_published_on_loopback_and_nothing_else_is() -> None:
    published = re.findall(r"^    ports: (.*)$", COMPOSE, re.MULTILINE)
    assert len(published) == 7
    assert all(re.fullmatch(r'\["127\.0\.0\.1:\$\{\w+:-\d+\}:(8080|9090|3000)"\]', each) for each in published)


def test_every_volume_is_declared_and_has_its_place_in_the_images() -> None:
    declared = {*re.findall(r"^  ([a-z0-9-]+):$", COMPOSE.partition("\nvolumes:\n")[2], re.MULTILINE)}
    mounted = re.findall(r"(?<![./\w-])([a-z][a-z0-9-]+):(/[\w/-]+)", COMPOSE.partition("\nservices:\n")[2])
    used = {name: path for name, path in mounted if path.startswith(("/data/", "/prometheus", "/var/lib/grafana"))}
    assert {*used} == declared
    for name, path in used.items():
        if name.startswith("secrets-"):
            # All services find theirs in one place, and the one that makes them has a place for each.
            assert path == "/data/secrets"
            assert f"- {name}:/data/secrets/{name.removeprefix('secrets-')}\n" in COMPOSE
            assert re.search(rf" secrets/{name.removeprefix('secrets-')}\b", DOCKERFILE), name
        elif path.startswith("/data/"):
            assert path == f"/data/{name}"
            assert re.search(rf"\b{name}\b", DOCKERFILE), name


@pytest.mark.parametrize("variable", sorted({*re.findall(r"\b((?:KAFKA|LETHE)_[A-Z_]+):", COMPOSE)}))
def test_every_variable_is_a_property_that_somebody_reads(variable: str) -> None:
    known = {*BROKER_SCHEMA, *CONTROLLER_SCHEMA}
    set_by_it = {variable: "x"}
    assert unknown_names(environment_settings(set_by_it, known) | unknown_variables(set_by_it, known), known) == []


def test_of_the_secured_cluster_nothing_comes_up_with_another_profile_and_nothing_of_the_others_with_it() -> None:
    services: dict[str, dict[str, list[str]]] = yaml.safe_load(COMPOSE)["services"]
    for name, service in services.items():
        is_secured = {profile.startswith("secure") for profile in service["profiles"]}
        assert is_secured == {name.startswith("secure-")}, name


def test_no_secret_stands_in_the_file_and_each_service_mounts_its_own_alone() -> None:
    assert not re.findall(r"(?i)password[=:](?!s\.json)", COMPOSE)
    services = yaml.safe_load(COMPOSE)["services"]
    for name, service in services.items():
        mounted = [each.split(":") for each in service["volumes"] if each.startswith(("secrets-", "authority"))]
        if name == "secure-files":
            assert len(mounted) == len(files.HOLDERS) + 1
            assert service["network_mode"] == "none"
        elif name.startswith("secure-"):
            assert mounted == [[f"secrets-{name.removeprefix('secure-')}", "/data/secrets", "ro"]], name
        else:
            assert mounted == [], name


@pytest.mark.parametrize("service", ["prometheus", "secure-prometheus"])
def test_prometheus_scrapes_services_that_come_up_with_it(service: str) -> None:
    services = yaml.safe_load(COMPOSE)["services"]
    (file,) = (each.partition(":")[0] for each in services[service]["volumes"] if each.endswith("prometheus.yml:ro"))
    jobs = yaml.safe_load((ROOT / file).read_text())["scrape_configs"]
    scraped = [target.partition(":")[0] for job in jobs for each in job["static_configs"] for target in each["targets"]]
    assert ("survey-metrics" in scraped) == (service == "prometheus")
    for each in scraped:
        assert {*services[each]["profiles"]} & {*services[service]["profiles"]}, each


def test_agents_are_what_comes_up_where_no_profile_is_named() -> None:
    assert "COMPOSE_PROFILES=agents\n" in (ROOT / ".env").read_text()
    assert len(AGENTS) == 3
    assert COMPOSE.count("    <<: *agent\n") == 3
    assert "  profiles: [agents, demo, pipeline]\n" in COMPOSE


@pytest.mark.parametrize("place", ["README.md", "docs/compose.md", "docker-compose.yml"])
def test_who_takes_it_all_away_names_every_profile(place: str) -> None:
    """`down` of version 2 leaves what is of profiles that are not named, volumes that `run demo` has made too."""
    profiles = {name.strip() for each in re.findall(r"profiles: \[(.*)\]", COMPOSE) for name in each.split(",")}
    commands = [
        line for line in (ROOT / place).read_text().splitlines() if re.search(r"compose (.* )?down --volumes", line)
    ]
    commands = [line for line in commands if line.startswith(("    ", "#   "))]
    assert commands
    for line in commands:
        named = re.search(r"COMPOSE_PROFILES=([\w,-]+) docker compose down --volumes", line)
        assert named is not None, line
        assert set(named[1].split(",")) == profiles


def test_what_the_images_copy_is_in_the_context() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [
        word for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]
    ]
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert any(path == each or path.startswith(f"{each}/") for each in allowed), path
