"""The files in deploy/ name what exists: metrics, tables, options and variables."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tidegate.cli.parser import make_parser
from tidegate.gateway.metrics import Metrics

DEPLOY = Path(__file__).parents[1] / "deploy"


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
