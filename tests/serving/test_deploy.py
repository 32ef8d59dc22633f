"""The files of deploy/ fit the server, and each other."""

import configparser
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import click
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from ports import free_port

from keras_selfattn.cli import serve
from keras_selfattn.cli.shared import backend
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMMAND = [sys.executable, "-c", "from keras_selfattn.cli.entry import main; main()", "serve"]
# Seconds that the server needs after its grace: to close connections and to unload models.
AFTER_GRACE = 5


def documents(name):
    """The documents of a file, by kind."""
    found = list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


KUBERNETES, KSERVE = documents("kubernetes.yaml"), documents("kserve.yaml")
POD = KUBERNETES["Deployment"]["spec"]["template"]
CONTAINERS = {
    "kubernetes.yaml": POD["spec"]["containers"][0],
    "kserve.yaml": KSERVE["ClusterServingRuntime"]["spec"]["containers"][0],
}
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def settings(container):
    """The server's settings that the arguments of a container amount to."""
    arguments = [each.replace("{{.Name}}", "reviews") for each in container["args"]]
    given = serve.command.make_context("serve", arguments).params
    return ServerConfig(**{name: given[name] for name in serve.SETTINGS})


def probed_port(container, probe):
    """The number of a probe's port, which may have a name."""
    port = probe["httpGet"]["port"]
    return {each["name"]: each["containerPort"] for each in container["ports"]}.get(port, port)


def program(name):
    """The path of a program of an optional package."""
    found = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    return found or pytest.skip(f"{name} is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.30.0", "latest"])  # 1.30 has preStop's sleep
def test_the_manifests_pass_the_schemas_of_kubernetes(version):
    validation = pytest.importorskip("kubernetes_validate")
    version = validation.latest_version() if version == "latest" else version
    for document in KUBERNETES.values():
        validation.validate(document, version, strict=True)
    # Of KServe's own documents, what is Kubernetes'.
    spec = {"containers": [CONTAINERS["kserve.yaml"]]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    validation.validate(pod, version, strict=True)
    spec["containers"][0] = {**spec["containers"][0], "readinesProbe": {}}
    with pytest.raises(validation.ValidationError, match="readinesProbe"):
        validation.validate(pod, version, strict=True)


def test_all_selectors_select_the_pods_of_the_deployment():
    specs = {kind: document["spec"] for kind, document in KUBERNETES.items()}
    selectors = [
        specs["Deployment"]["selector"]["matchLabels"],
        specs["Service"]["selector"],
        specs["PodDisruptionBudget"]["selector"]["matchLabels"],
        specs["NetworkPolicy"]["podSelector"]["matchLabels"],
        *(each["labelSelector"]["matchLabels"] for each in POD["spec"]["topologySpreadConstraints"]),
    ]
    assert selectors == [POD["metadata"]["labels"]] * 5
    scaled = specs["HorizontalPodAutoscaler"]["scaleTargetRef"]
    assert scaled == {
        "apiVersion": KUBERNETES["Deployment"]["apiVersion"],
        "kind": "Deployment",
        "name": KUBERNETES["Deployment"]["metadata"]["name"],
    }
    assert "replicas" not in specs["Deployment"], "each apply would undo the autoscaler"


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_arguments_are_flags_of_the_server_and_its_ports_those_of_the_container(name):
    container = CONTAINERS[name]
    config = settings(container)
    assert config.host == "0.0.0.0", "the default is loopback, which nobody outside the pod reaches"
    served = {config.port, config.rest_api_port}
    assert {each["containerPort"] for each in container["ports"]} <= served
    assert {probed_port(container, container[probe]) for probe in PROBES} == {config.rest_api_port}
    mistaken = {**container, "args": [*container["args"], "--grace=1"]}
    with pytest.raises(click.NoSuchOption, match="--grace"):
        settings(mistaken)


def test_the_service_and_the_policy_use_ports_that_the_container_has():
    ports = {each["name"]: each["containerPort"] for each in CONTAINERS["kubernetes.yaml"]["ports"]}
    offered = KUBERNETES["Service"]["spec"]["ports"]
    assert {each["targetPort"]: each["port"] for each in offered} == ports
    rules = KUBERNETES["NetworkPolicy"]["spec"]["ingress"]
    assert {each["port"] for rule in rules for each in rule["ports"]} == set(ports)


def test_the_model_is_mounted_where_the_server_looks_and_nothing_can_be_written():
    (mount,) = CONTAINERS["kubernetes.yaml"]["volumeMounts"]
    base_path = Path(settings(CONTAINERS["kubernetes.yaml"]).model_base_path)
    assert base_path.is_relative_to(mount["mountPath"])
    assert mount["readOnly"]
    for container in CONTAINERS.values():
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not settings(container).enable_profiler, "it writes files"


def test_a_pod_has_time_to_drain():
    before = CONTAINERS["kubernetes.yaml"]["lifecycle"]["preStop"]["sleep"]["seconds"]
    grace = settings(CONTAINERS["kubernetes.yaml"]).shutdown_grace_seconds
    assert before + grace + AFTER_GRACE <= POD["spec"]["terminationGracePeriodSeconds"]
    readiness = CONTAINERS["kubernetes.yaml"]["readinessProbe"]
    assert before >= readiness["periodSeconds"] * readiness["failureThreshold"]


def test_the_service_of_kserve_names_what_its_runtime_offers():
    runtime = KSERVE["ClusterServingRuntime"]
    model = KSERVE["InferenceService"]["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"] in runtime["spec"]["supportedModelFormats"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    container = CONTAINERS["kserve.yaml"]
    assert container["name"] == "kserve-container"  # KServe looks for this name
    assert str(settings(container).model_base_path) == "/mnt/models"  # and mounts the model here
    assert runtime["spec"]["annotations"]["prometheus.kserve.io/port"] == str(
        settings(container).rest_api_port
    )


def test_the_image_runs_as_the_user_and_on_the_ports_of_the_manifest():
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    security = POD["spec"]["securityContext"]
    assert f"\nUSER {security['runAsUser']}:{security['runAsGroup']}\n" in text
    config = settings(CONTAINERS["kubernetes.yaml"])
    assert f"\nEXPOSE {config.port} {config.rest_api_port}\n" in text
    copied = " ".join(re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE)).split()
    assert {"keras_selfattn", "export", "serving", "setup.cfg"} <= set(copied)
    assert [path for path in copied if not (ROOT / path).exists()] == []


@pytest.mark.process
def test_hadolint_has_nothing_to_say_of_the_containerfile(tmp_path):
    hadolint, text = program("hadolint"), (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    subprocess.run([hadolint, DEPLOY / "Containerfile"], check=True, timeout=60)
    worse = tmp_path / "Containerfile"
    worse.write_text(text.replace("python:3.11-slim-bookworm", "python").replace("${BASE}", "python"))
    done = subprocess.run([hadolint, worse], check=False, timeout=60, capture_output=True, text=True)
    assert "DL3006" in done.stdout


def test_what_the_image_installs_has_the_bounds_of_setup_cfg():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    asked = setup["options"]["install_requires"] + setup["options.extras_require"]["serve"]
    bounds = dict(re.findall(r"^([\w-]+)(>=\S+)$", asked, re.MULTILINE))
    listed = (DEPLOY / "requirements.txt").read_text(encoding="utf-8")
    ours = dict(re.findall(r"^([\w-]+)(>=[^\s;]+)?", listed, re.MULTILINE))
    ours["tensorflow"] = ours.pop("tensorflow-cpu")
    assert {name: bounds[name] for name in ours if name in bounds} == {
        name: bound for name, bound in ours.items() if bound
    }
    assert bounds.keys() - ours == {"keras"}, "which only the layers need"


def test_the_autoscaler_reads_a_gauge_that_the_server_exports(half_base):
    (metric,) = KUBERNETES["HorizontalPodAutoscaler"]["spec"]["metrics"]
    adapter = yaml.safe_load((DEPLOY / "prometheus-adapter.yaml").read_text(encoding="utf-8"))
    (rule,) = adapter["rules"]["custom"]
    annotations = POD["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(settings(CONTAINERS["kubernetes.yaml"]).rest_api_port)
    kserve = KSERVE["ClusterServingRuntime"]["spec"]["annotations"]
    assert kserve["prometheus.kserve.io/path"] == annotations["prometheus.io/path"]
    with Server(ServerConfig("half", half_base, port=0, rest_api_port=-1)) as server:
        url = f"{server.rest_url}{annotations['prometheus.io/path']}"
        with urllib.request.urlopen(url, timeout=20) as response:
            gauges = re.findall(r"^# TYPE (\S+) gauge$", response.read().decode(), re.MULTILINE)
    (series,) = [each for each in gauges if rule["seriesQuery"].startswith(f"{each}{{")]
    renamed = re.sub(rule["name"]["matches"], rule["name"]["as"].replace("$", "\\"), series)
    assert renamed == metric["pods"]["metric"]["name"]


def test_standard_error_is_held_back_where_no_file_can_be_made(monkeypatch, capfd):
    def refused():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(backend.tempfile, "TemporaryFile", refused)
    if sys.platform == "linux":
        with backend.held_back_stderr():
            os.write(2, b"held back")
        assert capfd.readouterr().err == ""


class Probed:
    """A server with the arguments of the Deployment, but for its ports, and what a kubelet sees of it.

    Args:
        base_path: of its model.
    """

    def __init__(self, base_path):
        self.container = CONTAINERS["kubernetes.yaml"]
        self.port, self.rest_port = free_port(), free_port()
        own = ["--host=127.0.0.1", f"--port={self.port}", f"--rest_api_port={self.rest_port}"]
        command = [*COMMAND, *self.container["args"], *own, f"--model_base_path={base_path}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def probe(self, name):
        """Return True if a probe of the container succeeds: by a new connection, as a kubelet's."""
        connection = http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=20)
        try:
            connection.request("GET", self.container[name]["httpGet"]["path"])
            return 200 <= connection.getresponse().status < 400
        except OSError:
            return False
        finally:
            connection.close()

    def health(self):
        """The answer of the health service."""
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            asked = health_pb2.HealthCheckRequest()
            return health_pb2_grpc.HealthStub(channel).Check(asked, timeout=20).status


@pytest.mark.process
def test_readiness_turns_before_the_port_closes_and_sigterm_drains_in_the_pods_time(
    slow_base, until, in_background
):
    pod = Probed(slow_base)
    try:
        assert not pod.probe("startupProbe")
        until(lambda: pod.probe("startupProbe"), 120)
        assert [pod.probe(name) for name in PROBES] == [True] * 3
        with Client(f"127.0.0.1:{pod.port}", "reviews") as client:
            running = in_background(client.predict, {"seconds": 5.0}, timeout=60)
            until(lambda: b'waiting_requests{model_name="reviews"} 0' in metrics(pod) and busy(pod))
            pod.process.send_signal(signal.SIGTERM)
            until(lambda: not pod.probe("readinessProbe"))
            assert pod.health() == health_pb2.HealthCheckResponse.NOT_SERVING
            socket.create_connection(("127.0.0.1", pod.port), 20).close()  # the port is open
            assert not running.done()
            assert running.result()["rounds"] > 0
        assert pod.process.wait(POD["spec"]["terminationGracePeriodSeconds"]) == 0
    finally:
        pod.process.kill()
        pod.process.wait()


def metrics(pod):
    path = POD["metadata"]["annotations"]["prometheus.io/path"]
    with urllib.request.urlopen(f"http://127.0.0.1:{pod.rest_port}{path}", timeout=20) as response:
        return response.read()


def busy(pod):
    return b'oldest_request_age_seconds{model_name="reviews"} 0\n' not in metrics(pod)
