"""The compose file and the manifests for workers are held against schemas, settings and the server's compose file."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from ragflow_lg.server.observability.operations import Metrics
from ragflow_lg.server.observability.run_slots import RunSlots
from ragflow_lg.server.settings import load_settings
from tests.architecture.sources import ROOT
from tests.harness.rows import each_row

MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))


def read(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def find(kind: str, name: str) -> dict[str, Any]:
    found = [one for path in MANIFESTS for one in read(path) if one["kind"] == kind and one["metadata"]["name"] == name]
    assert len(found) == 1
    return found[0]


def settings_are_valid(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> bool:
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        if name.startswith("RAGFLOW_LG_") and name != "RAGFLOW_LG_SETTINGS":
            monkeypatch.setenv(name, value.replace("${POSTGRES_PASSWORD:?set POSTGRES_PASSWORD}", "x"))
    settings = load_settings(None)
    return settings.checkpoints == settings.queue.url.get_secret_value() == "redis://redis:6379/0"


@each_row("path", MANIFESTS)
def test_the_manifests_match_the_schemas_of_kubernetes(path: Path) -> None:
    validator: Any = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for document in read(path):
        if document["kind"] not in ("Kustomization", "ScaledObject"):  # they are no part of Kubernetes
            validator.validate(document, "1.34", strict=True)


def problems(schema: str, document: dict[str, Any]) -> list[str]:
    """Return what a schema in the fixtures says against a document."""
    text = (ROOT / "tests" / "fixtures" / "schemas" / schema).read_text("utf-8")
    validator: Any = Draft7Validator(json.loads(text))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


def test_the_scaler_matches_the_schema_of_keda() -> None:
    scaler = find("ScaledObject", "ragflow-lg-worker")
    assert problems("scaled-object.json", scaler) == []
    changes: list[dict[str, Any]] = [{"maxReplicaCounts": 3}, {"maxReplicaCount": "3"}, {"scaleTargetRef": {}}]
    for wrong in changes:
        assert problems("scaled-object.json", scaler | {"spec": scaler["spec"] | wrong})


@pytest.mark.parametrize("name", ["docker-compose.yml", "deploy/compose-workers.yml"])
def test_the_compose_files_match_the_compose_specification(name: str) -> None:
    document = read(ROOT / name)[0]
    assert problems("compose-spec.json", document) == []
    for service in document["services"].values():
        for wrong in ({"mem_limits": "1g"}, {"read_only": 7}, {"ports": "8080"}, {"healthcheck": {"tests": 1}}):
            changed = {"services": {"one": service | wrong}}
            assert problems("compose-spec.json", document | changed)


def test_the_kustomization_names_every_manifest() -> None:
    named = read(ROOT / "deploy" / "kubernetes" / "kustomization.yaml")[0]["resources"]
    assert sorted([*named, "kustomization.yaml"]) == [path.name for path in MANIFESTS]


def test_the_settings_of_the_manifests_are_valid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert settings_are_valid(find("ConfigMap", "ragflow-lg")["data"], monkeypatch, tmp_path)


def test_the_scaler_reads_a_metric_that_exists_and_scales_the_workers() -> None:
    spec = find("ScaledObject", "ragflow-lg-worker")["spec"]
    assert spec["scaleTargetRef"]["name"] == find("Deployment", "ragflow-lg-worker")["metadata"]["name"]
    metrics = Metrics(RunSlots(1))
    metrics.show_queue(lambda: 0, lambda: 0, lambda: 0)
    query = spec["triggers"][0]["metadata"]["query"]
    assert query.removeprefix("max(").removesuffix(")") in metrics.text().decode()


@pytest.mark.parametrize("name", ["ragflow-lg-server", "ragflow-lg-worker"])
def test_pods_have_no_privileges_and_time_to_stop(name: str) -> None:
    pod = find("Deployment", name)["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["terminationGracePeriodSeconds"] > load_settings(None).server.drain_s
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_the_compose_file_has_two_servers_and_three_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    base, more = read(ROOT / "docker-compose.yml")[0], read(ROOT / "deploy" / "compose-workers.yml")[0]
    services = more["services"]
    assert set(services) == {"server", "server-2", "worker"}
    assert services["worker"]["deploy"]["replicas"] == 3
    assert services["worker"]["command"][0] == "worker"
    server = base["services"]["server"]
    for name in ("server-2", "worker"):
        own = services[name]
        assert {key: own[key] for key in ("read_only", "cap_drop", "security_opt", "volumes", "mem_limit")} == {
            key: server[key] for key in ("read_only", "cap_drop", "security_opt", "volumes", "mem_limit")
        }
    assert settings_are_valid(services["worker"]["environment"], monkeypatch, tmp_path)
