"""The manifests of deploy/kubernetes: of the API's form to the last field, and of one mind with Lethe."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from typing import Any, Final

import kubernetes_validate
import pytest

from lethe.adapters.config_environment import property_name
from lethe.broker.runtime.configuration import BROKER_SCHEMA, load_broker_config
from lethe.controller.runtime.configuration import CONTROLLER_SCHEMA, load_controller_config
from tests.unit.deploy.kubernetes import (
    FILES,
    FOLDER,
    Document,
    Workload,
    documents,
    environment,
    of_kind,
    pods,
    workloads,
)

NAME: Final = "app.kubernetes.io/name"
LETHE: Final = ("controller", "broker", "survey")
OLDEST, NEWEST = "1.28", kubernetes_validate.latest_version()
FOR_COMMANDS: Final = {"LETHE_ZOOKEEPER_CONNECT"}
"""Variables that commands read, and daemons do not."""


def called(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def check(document: Document, version: str) -> None:
    """Raises kubernetes_validate.ValidationError where a field is missing, of another type, or unknown."""
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("document", documents(), ids=called)
def test_every_manifest_is_of_the_form_that_the_api_wants(document: Document, version: str) -> None:
    check(document, version)


def _spoil(document: Document, *way: str | int) -> Document:
    """A copy in which the last key of the way is misspelt."""
    spoilt = copy.deepcopy(document)
    inner: Any = spoilt
    for step in way[:-1]:
        inner = inner[step]
    inner[f"{way[-1]}x"] = inner.pop(way[-1])
    return spoilt


@pytest.mark.parametrize(
    "kind,way",
    [
        ("StatefulSet", ("spec", "podManagementPolicy")),
        ("StatefulSet", ("spec", "serviceName")),
        ("StatefulSet", ("spec", "template", "spec", "setHostnameAsFQDN")),
        ("StatefulSet", ("spec", "template", "spec", "containers", 0, "readinessProbe", "httpGet", "port")),
        ("StatefulSet", ("spec", "template", "spec", "containers", 0, "securityContext", "readOnlyRootFilesystem")),
        ("StatefulSet", ("spec", "volumeClaimTemplates", 0, "spec", "accessModes")),
        ("PodDisruptionBudget", ("spec", "maxUnavailable")),
        ("Service", ("spec", "clusterIP")),
        ("NetworkPolicy", ("spec", "podSelector")),
        ("CronJob", ("spec", "jobTemplate", "spec", "backoffLimit")),
    ],
    ids=lambda part: part if isinstance(part, str) else str(part[-1]),
)
def test_a_misspelt_field_is_found(kind: str, way: tuple[str | int, ...]) -> None:
    document = next(each for each in of_kind(kind) if each["metadata"]["name"] in ("controller", "survey"))
    with pytest.raises(kubernetes_validate.ValidationError):
        check(_spoil(document, *way), NEWEST)


def test_everything_is_in_the_namespace_and_told_once() -> None:
    assert len(FILES) == len(list(FOLDER.iterdir()))
    (namespace,) = of_kind("Namespace")
    others = [document for document in documents() if document["kind"] != "Namespace"]
    assert {document["metadata"]["namespace"] for document in others} == {namespace["metadata"]["name"]}
    assert len({called(document) for document in documents()}) == len(documents())


# --- one mind with each other -------------------------------------------------------------------------------------


def selected(selector: Document) -> list[Workload]:
    """Whose pods a selector takes."""
    found = []
    for workload in workloads().values():
        labels = workload.labels
        wanted = [labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()]
        for expression in selector.get("matchExpressions", ()):
            assert expression["operator"] == "In"
            wanted.append(labels.get(expression["key"]) in expression["values"])
        if all(wanted):
            found.append(workload)
    return found


@pytest.mark.parametrize("document", of_kind("StatefulSet"), ids=called)
def test_a_stateful_set_selects_its_own_pods_has_its_headless_service_and_a_budget(document: Document) -> None:
    name, spec = document["metadata"]["name"], document["spec"]
    assert [each.name for each in selected(spec["selector"])] == [name]
    (service,) = [each for each in of_kind("Service") if each["metadata"]["name"] == spec["serviceName"]]
    assert service["spec"]["clusterIP"] == "None"
    assert [each.name for each in selected({"matchLabels": service["spec"]["selector"]})] == [name]
    (budget,) = [each for each in of_kind("PodDisruptionBudget") if each["metadata"]["name"] == name]
    assert [each.name for each in selected(budget["spec"]["selector"])] == [name]
    assert budget["spec"]["maxUnavailable"] == 1 < spec["replicas"]
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    assert [[each.name for each in selected(one["labelSelector"])] for one in spread] == [[name]]


@pytest.mark.parametrize("document", of_kind("Service"), ids=called)
def test_a_service_leads_to_ports_that_its_pods_have(document: Document) -> None:
    (workload,) = selected({"matchLabels": document["spec"]["selector"]})
    assert {port["targetPort"]: port["port"] for port in document["spec"]["ports"]} == workload.ports


def test_network_policies_refuse_all_and_let_in_by_ports_that_there_are() -> None:
    everything, *others = of_kind("NetworkPolicy")
    assert everything["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    assert {workload.name for each in others for workload in selected(each["spec"]["podSelector"])} == {
        name for name, workload in workloads().items() if workload.ports
    }
    for policy in others:
        (workload,) = selected(policy["spec"]["podSelector"])
        opened = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert opened == set(workload.ports)
        for rule in policy["spec"]["ingress"]:
            assert all(selected(peer["podSelector"]) for peer in rule["from"] if "podSelector" in peer)


@pytest.mark.parametrize("workload", workloads().values(), ids=lambda workload: workload.name)
def test_volumes_that_are_mounted_exist_and_those_that_exist_are_mounted(workload: Workload) -> None:
    there = {volume["name"] for volume in workload.pod.get("volumes", ())}
    there |= {claim["metadata"]["name"] for claim in workload.spec.get("volumeClaimTemplates", ())}
    assert {mount["name"] for mount in workload.container["volumeMounts"]} == there


@pytest.mark.parametrize("workload", workloads().values(), ids=lambda workload: workload.name)
def test_pods_pass_what_the_namespace_enforces_and_a_little_more(workload: Workload) -> None:
    pod, container = workload.pod, workload.container
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]


# --- of one mind with Lethe ---------------------------------------------------------------------------------------


def test_images_are_of_this_version() -> None:
    version = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text())["project"]["version"]
    assert {workloads()[name].container["image"] for name in LETHE} == {f"lethe:{version}"}
    assert [workloads()[name].container["args"] for name in LETHE] == [[name] for name in LETHE]


def variables(name: str) -> Iterator[str]:
    for variable in workloads()[name].container["env"]:
        if variable["name"].startswith(("KAFKA_", "LETHE_")) and variable["name"] not in FOR_COMMANDS:
            yield variable["name"]


@pytest.mark.parametrize("name,known", [("controller", CONTROLLER_SCHEMA), ("broker", BROKER_SCHEMA), ("survey", {})])
def test_every_variable_is_a_property_that_lethe_knows(name: str, known: dict[str, object]) -> None:
    names = [property_name(variable.removeprefix("KAFKA_")) for variable in variables(name)]
    assert [each for each in names if each not in known] == []
    assert "KAFKA_BROKER_ID" in variables(name) or name == "survey"


@pytest.mark.parametrize("name", ["controller", "broker"])
def test_every_pod_has_a_configuration_of_its_own_that_loads_and_leads_to_it(name: str) -> None:
    workload = workloads()[name]
    ids = []
    for pod, index in pods(workload):
        environ = environment(workload, pod, index)
        config = load_controller_config(None, environ) if name == "controller" else load_broker_config(None, environ)
        # Who deploys it chooses a token or a firewall, and is told so.
        (warning,) = config.warnings
        assert "HTTP asks for no token" in warning
        ids.append(getattr(config, "controller_id", None) or config.broker_id)  # type: ignore[union-attr]
        (listening,), (advertised,) = config.listeners, config.advertised_listeners
        assert (advertised.host, advertised.port) == (f"{pod}.{workload.spec['serviceName']}.lethe.svc", listening.port)
        assert workload.ports == {"kafka": listening.port, "http": config.http.port}
        assert config.http.host == listening.host == "0.0.0.0", "probes come from outside of the pod"
        assert config.journal is not None
        written = [config.journal.directory, *getattr(config, "log_dirs", ())]
        (data,) = [mount["mountPath"] for mount in workload.container["volumeMounts"] if mount["name"] == "data"]
        assert all(str(path).startswith(f"{data}/") for path in written)
        assert len(f"{pod}.{name}.lethe.svc.cluster.local") <= 64, "what a host's name may be at most"
    assert ids == ([1001, 1002] if name == "controller" else [1, 2, 3])


def test_all_mean_the_same_zookeeper_which_is_the_one_that_is_here() -> None:
    zookeeper = workloads()["zookeeper"]
    servers = ",".join(
        f"{pod}.{zookeeper.spec['serviceName']}:{zookeeper.ports['client']}" for pod, _ in pods(zookeeper)
    )
    for name in LETHE:
        made = environment(workloads()[name], "pod-1", 1)
        given = {key: value for key, value in made.items() if key.endswith("ZOOKEEPER_CONNECT")}
        assert set(given.values()) == {f"{servers}/kafka"}
    ports = f"{zookeeper.ports['follower']}:{zookeeper.ports['election']}"
    quorum = [f"server.{index}={pod}.{zookeeper.spec['serviceName']}:{ports}" for pod, index in pods(zookeeper)]
    for pod, index in pods(zookeeper):
        made = environment(zookeeper, pod, index)
        assert made["ZOO_MY_ID"] == str(index)
        assert made["ZOO_SERVERS"].split() == ["quorumListenOnAllIPs=true", *quorum]


@pytest.mark.parametrize("name", ["controller", "broker"])
def test_probes_ask_for_paths_that_there_are(name: str) -> None:
    container = workloads()[name].container
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_there_is_as_much_time_to_stop_as_under_systemd() -> None:
    units = FOLDER.parent / "systemd"
    for name in ("controller", "broker"):
        unit = (units / f"lethe-{name}.service").read_text()
        assert f"\nTimeoutStopSec={workloads()[name].pod['terminationGracePeriodSeconds']}s\n" in unit
