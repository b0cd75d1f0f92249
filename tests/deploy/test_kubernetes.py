"""deploy/kubernetes/mercury.yaml agrees with itself, with the container and with Mercury's settings."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from fastapi import FastAPI

from mercury import Mercury
from mercury.errors import ConfigurationError
from mercury.service.host import TIMEOUT
from mercury.settings import HttpSettings, Settings, load
from tests.acceptance.processes import ROOT

DOCUMENTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((ROOT / "deploy/kubernetes/mercury.yaml").read_text(encoding="utf-8"))
)


def document(kind: str) -> dict[str, Any]:
    (found,) = [each for each in DOCUMENTS if each["kind"] == kind]
    return found


DEPLOYMENT = document("Deployment")["spec"]
POD = DEPLOYMENT["template"]["spec"]
(CONTAINER,) = POD["containers"]
(MIGRATION,) = POD["initContainers"]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def variables() -> dict[str, str]:
    """The environment of the container, with the values of the Secret."""
    secret = document("Secret")
    found = {}
    for each in CONTAINER["env"]:
        if "value" in each:
            found[each["name"]] = each["value"]
        else:
            reference = each["valueFrom"]["secretKeyRef"]
            assert reference["name"] == secret["metadata"]["name"]
            found[each["name"]] = secret["stringData"][reference["key"]]
    return found


SETTINGS = load(environment=variables())


def test_the_environment_has_settings_of_mercury() -> None:
    assert SETTINGS.store.startswith("postgresql+psycopg://")
    assert SETTINGS.http.host == "0.0.0.0"
    assert SETTINGS.http.max_connections_per_address == SETTINGS.http.max_connections
    assert SETTINGS.http.status_token is not None, "every pod of the cluster could ask for the status"


def links(service: str, port: int = 80) -> dict[str, str]:
    """The variables that Kubernetes adds for a Service to the containers of its namespace."""
    name, address = service.upper().replace("-", "_"), "10.96.0.17"
    to_port = f"{name}_PORT_{port}_TCP"
    return {
        f"{name}_SERVICE_HOST": address,
        f"{name}_SERVICE_PORT": str(port),
        f"{name}_SERVICE_PORT_HTTP": str(port),
        f"{name}_PORT": f"tcp://{address}:{port}",
        to_port: f"tcp://{address}:{port}",
        f"{to_port}_PROTO": "tcp",
        f"{to_port}_PORT": str(port),
        f"{to_port}_ADDR": address,
    }


@pytest.mark.parametrize("service", [document("Service")["metadata"]["name"], "mercury-http", "mercury-store"])
def test_variables_of_a_service_beside_the_pods_are_no_settings(service: str) -> None:
    assert load(environment=links(service) | variables()) == SETTINGS


def test_a_mistake_that_looks_like_such_a_variable_is_still_refused() -> None:
    with pytest.raises(ConfigurationError, match="there is no setting MERCURY_HTPP_PORT"):
        load(environment={"MERCURY_HTPP_PORT": "8000"})


def test_pods_get_no_variables_of_services() -> None:
    assert POD["enableServiceLinks"] is False


def test_passwords_come_from_the_secret() -> None:
    from_secret = {each["name"] for each in CONTAINER["env"] if "valueFrom" in each}
    assert from_secret == {"MERCURY_STORE", "MERCURY_HTTP_STATUS_TOKEN"}


def test_ports_are_the_one_where_mercury_listens() -> None:
    (port,) = CONTAINER["ports"]
    assert port["containerPort"] == SETTINGS.http.port == HttpSettings().port
    (served,) = document("Service")["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    assert {CONTAINER[probe]["httpGet"]["port"] for probe in PROBES} == {port["name"]}


def test_probes_ask_routes_that_exist() -> None:
    app = FastAPI()
    app.include_router(Mercury("memory:").status_router())
    routes = {getattr(route, "path", "") for route in app.routes} | set(app.openapi()["paths"])
    assert {CONTAINER[probe]["httpGet"]["path"] for probe in PROBES} <= routes
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"
    # A database that does not answer makes /readyz fail: a pod that is killed for it would not bring the database back.
    assert CONTAINER["livenessProbe"]["httpGet"]["path"] == "/healthz"


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_waits_longer_than_the_answer_takes(probe: str) -> None:
    assert CONTAINER[probe]["timeoutSeconds"] > TIMEOUT


def test_a_pod_starts_while_mercury_waits_for_its_database() -> None:
    probe = CONTAINER["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > Settings().store_wait


def test_a_pod_ends_by_itself_before_it_is_killed() -> None:
    command, pause = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    assert POD["terminationGracePeriodSeconds"] > float(pause) + HttpSettings().shutdown_deadline


def test_the_schema_is_upgraded_before_a_pod_serves() -> None:
    assert MIGRATION["args"] == ["db", "upgrade"]
    assert MIGRATION["image"] == CONTAINER["image"]
    stores = [each for each in CONTAINER["env"] if each["name"] == "MERCURY_STORE"]
    assert MIGRATION["env"] == stores


def test_one_of_two_replicas_always_serves() -> None:
    assert DEPLOYMENT["replicas"] == 2
    assert document("PodDisruptionBudget")["spec"]["minAvailable"] == 1
    assert DEPLOYMENT["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_selectors_find_the_pods() -> None:
    labels = DEPLOYMENT["template"]["metadata"]["labels"]
    assert document("Service")["spec"]["selector"] == labels
    assert DEPLOYMENT["selector"]["matchLabels"] == labels
    assert document("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels


def test_containers_have_no_more_rights_than_they_need() -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    for container in (CONTAINER, MIGRATION):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
    # Large requests are received into temporary files.
    (mount,), (volume,) = CONTAINER["volumeMounts"], POD["volumes"]
    assert (mount["mountPath"], mount["name"], volume["emptyDir"]) == ("/tmp", volume["name"], {})
