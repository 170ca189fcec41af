"""The manifests of deploy/kubernetes as documents, and what becomes of the variables in a pod of theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

FOLDER: Final = Path(__file__).parents[3] / "deploy" / "kubernetes"
FILES: Final = sorted(FOLDER.glob("*.yaml"))
INDEX: Final = "metadata.labels['apps.kubernetes.io/pod-index']"
_VARIABLE: Final = re.compile(r"\$\(([A-Z_]+)\)")

Document = dict[str, Any]


class Workload(NamedTuple):
    """What makes pods."""

    name: str
    labels: Mapping[str, str]
    """Of the pods."""
    pod: Document
    spec: Document
    """Of the StatefulSet or Job."""

    @property
    def container(self) -> Document:
        (found,) = self.pod["containers"]
        assert isinstance(found, dict)
        return found

    @property
    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self.container.get("ports", ())}


def documents() -> list[Document]:
    """All, in the order in which `kubectl apply -f` takes them."""
    return [document for path in FILES for document in yaml.safe_load_all(path.read_text())]


def of_kind(kind: str) -> list[Document]:
    return [document for document in documents() if document["kind"] == kind]


def workloads() -> dict[str, Workload]:
    """By name."""
    found = {}
    for document in documents():
        spec = document.get("spec", {})
        if document["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if "template" in spec:
            template, name = spec["template"], document["metadata"]["name"]
            found[name] = Workload(name, template["metadata"]["labels"], template["spec"], spec)
    return found


def pods(workload: Workload) -> Iterator[tuple[str, int]]:
    """Name and index of each pod of a StatefulSet."""
    start = workload.spec.get("ordinals", {}).get("start", 0)
    for index in range(start, start + workload.spec["replicas"]):
        yield f"{workload.name}-{index}", index


def environment(workload: Workload, pod: str, index: int, namespace: str = "lethe") -> dict[str, str]:
    """The variables of one pod's container, as the kubelet makes them: those before can be used in those after."""
    fields = {"metadata.name": pod, "metadata.namespace": namespace, INDEX: str(index)}
    made: dict[str, str] = {}
    for variable in workload.container["env"]:
        text = variable["value"] if "value" in variable else fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        made[variable["name"]] = _VARIABLE.sub(lambda found: made[found[1]], text)
    return made
