"""The files in deploy/: everything they name exists, and the tools they are for accept them."""

import configparser
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from connectors.cli import COMMANDS
from connectors.contract.errors import EXIT_CODES
from connectors.daemon.telemetry import SERIES
from connectors.settings.file import load
from streamk import __version__

DEPLOY = Path(__file__).parent.parent / "deploy"
PARTS = ("_bucket", "_sum", "_count")  # of a histogram


def names():
    """Return every name of a metric, with what Prometheus makes of histograms."""
    exposed = {series.name for series in SERIES if series.kind != "histogram"}
    return exposed | {series.name + part for series in SERIES if series.kind == "histogram" for part in PARTS}


def expressions():
    rules = yaml.safe_load((DEPLOY / "rules.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield f"rule {rule['alert']}", rule["expr"]
    for panel in json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield f"panel {panel['title']}", target["expr"]


@pytest.mark.parametrize(("place", "expression"), [*expressions()])
def test_rules_and_dashboard_name_metrics_and_labels_that_exist(place, expression):
    used = set(re.findall(r"\bstreamk_\w+", expression))
    assert used <= names(), place
    assert used or "up{" in expression or "process_" in expression
    labels = {series.name: series.labels for series in SERIES}
    for name, selector in re.findall(r"\b(streamk_\w+)\{(\w+)=", expression):
        assert selector in labels[name]
    for name, label, value in re.findall(r'\b(streamk_\w+)\{(\w+)="(\w+)"', expression):
        assert value in labels[name][label]
    for name in used:
        legend = set(re.findall(r"by \(([^)]*)\)", expression))
        grouped = {label.strip() for each in legend for label in each.split(",")} - {"instance", "le"}
        series = name if name in labels else name.rpartition("_")[0]
        assert grouped <= labels[series].keys(), f"{place}: {name} has no label {grouped}"


def test_every_alert_says_what_to_do():
    rules = yaml.safe_load((DEPLOY / "rules.yml").read_text())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 8
    for rule in rules:
        assert rule["annotations"].keys() == {"summary", "action"}
        assert rule["labels"]["severity"] in ("page", "ticket")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
@pytest.mark.parametrize("arguments", [("rules", "rules.yml"), ("config", "--syntax-only", "prometheus.yml")])
def test_promtool_accepts_them(arguments):
    subprocess.run(["promtool", "check", *arguments], cwd=DEPLOY, check=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_unit():
    done = subprocess.run(
        ["systemd-analyze", "verify", DEPLOY / "streamk.service"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_does_not_restart_what_needs_a_person():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "streamk.service")
    service = unit["Service"]
    kept = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert kept < EXIT_CODES.keys()
    assert EXIT_CODES.keys() - kept == {0, 5, 9}
    command = service["ExecStart"].split()
    assert command[1] == "streamk"
    assert command[2] in COMMANDS


def test_the_settings_are_those_that_the_files_need():
    settings = load(DEPLOY / "streamk.toml", {})
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    topics = services["topics"]["command"][0]
    for section in settings.sections.values():
        assert section.place in topics
    (server,) = settings.kafka.servers
    assert services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{server}"
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"]
    assert services["streamk"]["command"][0] in COMMANDS
    target = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"][0]
    assert target["static_configs"][0]["targets"] == [f"streamk:{settings.telemetry.port}"]
    assert settings.checkpoints.directory.parts[1] == "data"


def test_the_manifests_probe_what_the_daemon_answers():
    settings = load(DEPLOY / "streamk.toml", {})
    service, workload = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    assert workload["spec"]["serviceName"] == service["metadata"]["name"]
    assert not service["metadata"]["name"].startswith("streamk")
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] in COMMANDS
    port = settings.telemetry.port
    assert container["ports"] == [{"name": "telemetry", "containerPort": port}]
    assert service["spec"]["ports"][0]["port"] == port
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    live = container["livenessProbe"]
    assert live["httpGet"]["path"] == "/healthz"
    assert live["periodSeconds"] * live["failureThreshold"] >= settings.kafka.away_seconds
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/data", "/cache", "/etc/streamk"} == mounts
    names = {volume["name"] for volume in workload["spec"]["template"]["spec"]["volumes"]}
    names |= {claim["metadata"]["name"] for claim in workload["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == names


def test_grafana_finds_its_files():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    inside = [volume.split(":")[1] for volume in compose["services"]["grafana"]["volumes"]]
    provider = yaml.safe_load((DEPLOY / "grafana" / "provisioning" / "dashboards.yaml").read_text())
    folder = provider["providers"][0]["options"]["path"]
    assert any(path.startswith(f"{folder}/") for path in inside)
    source = yaml.safe_load((DEPLOY / "grafana" / "provisioning" / "datasource.yaml").read_text())
    panels = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]
    assert {panel["datasource"]["uid"] for panel in panels} == {source["datasources"][0]["uid"]}
    spots = [tuple(panel["gridPos"][key] for key in ("x", "y")) for panel in panels]
    assert len(set(spots)) == len(panels) >= 12


def test_the_runbook_has_every_exit_code():
    text = (DEPLOY.parent / "docs" / "operations.md").read_text()
    rows = {int(code): row for code, row in re.findall(r"^\| (\d) \| (.+)$", text, re.M)}
    assert rows.keys() == EXIT_CODES.keys() - {0}


def project():
    return tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())


def requirement(text):
    """Return the name and the versions of a requirement, as pip and conda write it."""
    name, versions = re.fullmatch(r"([\w-]+) ?([^;]*)(?:;.*)?", text).groups()
    return name.lower().replace("_", "-"), versions


def test_the_conda_recipe_has_the_requirements_of_the_project():
    recipe, metadata = yaml.safe_load((DEPLOY / "conda" / "meta.yaml").read_text()), project()["project"]
    needed = {requirement(text) for text in metadata["dependencies"]}
    python = ("python", metadata["requires-python"])
    assert {requirement(text) for text in recipe["requirements"]["run"]} == {*needed, python}
    build = {requirement(text) for text in project()["build-system"]["requires"]}
    assert {requirement(text) for text in recipe["requirements"]["host"]} == {*build, python, ("pip", "")}
    assert recipe["package"] == {"name": "streamk", "version": __version__}
    (entry,) = recipe["build"]["entry_points"]
    assert dict([entry.split(" = ")]) == metadata["scripts"]
    about = recipe["about"]
    assert (about["summary"], about["license"]) == (metadata["description"], metadata["license"])


def test_all_is_every_extra_for_users():
    extras = project()["project"]["optional-dependencies"]
    (text,) = extras["all"]
    names = re.fullmatch(r"streamk\[(.*)\]", text)[1].split(",")
    assert set(names) == extras.keys() - {"all", "bench", "docs", "test"}


def test_the_description_of_the_package_stands_alone():
    """An index shows README.md without the repository: no link or picture may be relative."""
    text = (DEPLOY.parent / "README.md").read_text()
    hook = project()["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for each in hook["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert links
    assert all(link.startswith("https://") for link in links)
    assert "docs/learners.md helps to choose a learner" in text
