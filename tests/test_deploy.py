"""The files in deploy/ name what exists: metrics, tables, options and variables."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tidegate.cli.parser import make_parser
from tidegate.gateway.metrics import Metrics

PROJECT = Path(__file__).parents[1]
DEPLOY = PROJECT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def read_yaml(name: str) -> Any:
    return YAML(typ="safe").load((DEPLOY / name).read_text())


def test_alerts_use_metrics_that_the_gateway_has() -> None:
    served = set(re.findall(r"^# TYPE (\S+)", Metrics().render(), re.MULTILINE))
    rules = read_yaml("alerts.yaml")["groups"][0]["rules"]
    used = {name for rule in rules for name in re.findall(r"tidegate_\w+", rule["expr"])}
    assert used
    assert used <= served


def test_the_container_starts_a_command_that_exists() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    options = make_parser().parse_args(YAML(typ="safe").load(command))
    assert (options.host, options.token_env, options.on_store_failure) == ("0.0.0.0", ["GATEWAY_TOKEN"], "refuse")


def test_the_services_depend_on_each_other_in_order() -> None:
    services = read_yaml("compose.yaml")["services"]
    order = ["gateway", "rights", "migrate", "db"]
    for service, needed in pairwise(order):
        assert list(services[service]["depends_on"]) == [needed]
    assert set(services["gateway"]["environment"]) == {"TIDEGATE_STORE", "GATEWAY_TOKEN"}
    assert "owner" not in services["gateway"]["environment"]["TIDEGATE_STORE"], "workers are not the owner"


def test_the_image_has_the_locked_packages_of_its_extras() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    (lock,) = re.findall(r"--require-hashes -r (\S+)", text)
    assert "pip install --no-cache-dir --no-deps --no-build-isolation ." in text

    def read_versions(name: str) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", (PROJECT / name).read_text(), re.MULTILINE))

    locked = read_versions(lock)
    assert {"httptools", "uvicorn", "psycopg", "psycopg-binary", "hatchling"} <= locked.keys()
    assert read_versions("requirements/runtime.txt").items() <= locked.items()
    assert locked.items() <= read_versions("requirements/dev.txt").items(), "what is tested is what is installed"


def read_pods() -> Iterator[tuple[str, Any]]:
    """The kind of each workload in the manifests, and what its pods are."""
    for path in MANIFESTS:
        for manifest in YAML(typ="safe").load_all(path.read_text()):
            spec = manifest["spec"]
            job = spec.get("jobTemplate", {}).get("spec", spec)
            if "template" in job:
                yield manifest["kind"], job["template"]["spec"]


def test_the_manifests_start_commands_that_exist_with_secrets_by_reference() -> None:
    commands = {}
    for kind, pod in read_pods():
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert all(set(variable) == {"name", "valueFrom"} for variable in container["env"])
            assert container["securityContext"]["readOnlyRootFilesystem"]
            if container["image"].startswith("tidegate:"):
                commands[kind] = make_parser().parse_args(container["args"])
    assert (commands["Deployment"].on_store_failure, commands["Deployment"].host) == ("refuse", "0.0.0.0")
    assert commands["Job"].repair is False
    assert (commands["CronJob"].tenant, commands["CronJob"].unused_for, commands["CronJob"].yes) == ("red", 90, True)


def test_probes_ask_what_the_gateway_answers() -> None:
    served = (PROJECT / "src/tidegate/gateway/app.py").read_text()
    (gateway,) = next(pod["containers"] for kind, pod in read_pods() if kind == "Deployment")
    paths = {name: probe["httpGet"]["path"] for name, probe in gateway.items() if name.endswith("Probe")}
    assert paths == {"livenessProbe": "/healthz", "readinessProbe": "/readyz", "startupProbe": "/healthz"}
    assert all(f'"{path}"' in served for path in paths.values())


def test_the_manifests_are_valid() -> None:
    """Strict: a property that Kubernetes does not know is an error. `make check-deploy` installs the program."""
    program = shutil.which("kubernetes-validate", path=str(PROJECT / ".envs/deploy/bin"))
    if program is None:
        pytest.skip("kubernetes-validate is not installed: make check-deploy")
    checked = subprocess.run([program, "--strict", *map(str, MANIFESTS)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count(" passed for resource ") == 5
