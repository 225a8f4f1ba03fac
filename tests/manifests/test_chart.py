"""The Helm chart makes the objects that kustomize makes for the same choices.

Helm renders all choices in one call: a parent chart has one copy of the chart for each of them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from threading import Thread
from typing import Any, Final, NamedTuple

import jsonschema
import pytest
import yaml

from activator import __version__
from activator.scale.settings import SETTINGS as OF_THE_SCALER
from activator.settings.config import settings_of
from activator.settings.values import Kind
from manifests import admission_policy
from tests.guards import expect_none
from tests.manifests import chart, knative
from tests.manifests.chart import CHART, HINT, README, SCHEMA
from tests.manifests.kubectl import HELM, PINNED, kustomize_command, program_path
from tests.manifests.kustomize import MANIFESTS, ROOT, Object, find
from tests.manifests.test_manifests import by_name
from tests.manifests.test_services import OLDEST_FOR_SERVICES

NAMESPACE: Final = "elsewhere"
IMAGE: Final = "r.example/a"

#: Labels and annotations without a counterpart in kustomize: by Helm, and by `kubectl apply`.
ADDED: Final = frozenset(
    {
        *("helm.sh/chart", "app.kubernetes.io/managed-by", "helm.sh/resource-policy"),
        "kubectl.kubernetes.io/last-applied-configuration",
    }
)


class Choice(NamedTuple):
    """One installation: the values of the chart, and the same in words of kustomize."""

    values: dict[str, Any]
    overlay: str
    #: Components whose comment sign an operator removes, in the order of the overlay's file.
    components: tuple[str, ...] = ()
    #: Whether manifests/monitoring is applied in addition.
    monitoring: bool = False
    #: Names that kustomize has and the chart is without.
    without: tuple[str, ...] = ()


ON: Final = {"enabled": True}
ALL_MONITORS: Final = {"serviceMonitor": ON, "podMonitor": ON, "rules": ON, "dashboards": ON}
KNATIVE: Final = {"dialect": "knative"}
SERVICES: Final = {"dialect": "services", "namespace": {"create": True}}
OPTIONS: Final = {"admission": ON, "externalMetrics": ON, "networkPolicies": ON}
POLICY: Final = {"admissionPolicy": ON}
WAKERS: Final = {
    "sandboxes": "waker-sandboxes",
    "clusters": "waker-clusters",
    "virtualMachines": "waker-virtual-machines",
    "rollouts": "waker-rollouts",
    "resize": "waker-resize",
    "http": "waker-http",
}

CHOICES: Final[dict[str, Choice]] = {
    "dropin": Choice(KNATIVE, "knative"),
    "dropinTls": Choice({**KNATIVE, "internalTls": ON}, "knative", ("internal-tls",)),
    "dropinPolicies": Choice({**KNATIVE, "networkPolicies": ON}, "knative", ("network-policies",)),
    "dropinMonitored": Choice(
        {**KNATIVE, "monitoring": {"serviceMonitor": ON, "rules": ON, "dashboards": ON}},
        "knative",
        ("service-monitor",),
        monitoring=True,
    ),
    "services": Choice(SERVICES, "services"),
    "servicesPolicies": Choice(
        {**SERVICES, "networkPolicies": ON}, "services", ("network-policies-of-services",)
    ),
    "servicesMonitored": Choice(
        {**SERVICES, "monitoring": {"serviceMonitor": ON, "podMonitor": ON}},
        "services",
        ("service-monitor", "pod-monitor"),
    ),
    **{
        f"wakes{name.capitalize()}": Choice({**SERVICES, "wakers": {name: ON}}, "services", (each,))
        for name, each in WAKERS.items()
    },
    "servicesAlone": Choice(
        {**SERVICES, "scaler": {"enabled": False}}, "services", without=("activator-scale",)
    ),
    "servicesAll": Choice(
        {
            **SERVICES,
            **OPTIONS,
            **POLICY,
            "monitoring": ALL_MONITORS,
            "wakers": dict.fromkeys(WAKERS, ON),
        },
        "services",
        (
            *("network-policies-of-services", "external-metrics", "service-monitor"),
            *("admission", "pod-monitor", "admission-policy"),
            *WAKERS.values(),
        ),
        monitoring=True,
    ),
    "both": Choice({"dialect": "both"}, "knative", ("services",)),
    "everything": Choice(
        {"dialect": "both", **OPTIONS, **POLICY, "internalTls": ON, "monitoring": ALL_MONITORS},
        "knative",
        (
            *("internal-tls", "network-policies", "service-monitor", "pod-monitor", "admission"),
            *("services", "network-policies-of-services", "external-metrics"),
            "admission-policy",
        ),
        monitoring=True,
    ),
}


def helm(*words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run helm, without a cluster."""
    command = [program_path(HELM), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not (check and done.returncode), done.stderr
    return done


def parent(folder: Path, copies: dict[str, dict[str, Any]]) -> Path:
    """Write a chart that depends on one copy of the chart for each entry, with its values."""
    shutil.copytree(CHART, folder / "charts" / "activator")
    dependencies = [{"name": "activator", "version": __version__, "alias": name} for name in copies]
    about = {"apiVersion": "v2", "name": "parent", "version": "1.0.0"}
    (folder / "Chart.yaml").write_text(yaml.safe_dump({**about, "dependencies": dependencies}))
    (folder / "values.yaml").write_text(yaml.safe_dump(copies))
    return folder


def kustomization(manifests: Path, name: str, choice: Choice) -> Path:
    """Write the overlay of a choice, edited as an operator edits it."""
    folder = manifests / "overlays" / name
    shutil.copytree(MANIFESTS / "overlays" / choice.overlay, folder)
    content = yaml.load((folder / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    content["namespace"] = NAMESPACE
    content["components"] = [f"../../components/{each}" for each in choice.components]
    content["images"][0] |= {"newName": IMAGE}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder


def kustomized(folder: Path) -> list[Object]:
    """Return the objects that the real kustomize makes of a folder."""
    return parsed(_output_of_kustomize(folder))


@cache
def _output_of_kustomize(folder: Path) -> bytes:
    return subprocess.run([*kustomize_command(), folder], capture_output=True, check=True).stdout


def expected(folder: Path, choice: Choice) -> list[Object]:
    """Return the objects of kustomize for a choice."""
    objects = kustomized(folder)
    if choice.monitoring:
        monitoring = kustomized(MANIFESTS / "monitoring")
        for each in monitoring:
            each["metadata"]["namespace"] = NAMESPACE
        objects += monitoring
    return [each for each in objects if each["metadata"]["name"] not in choice.without]


def of_kustomize(objects: Iterable[Object]) -> dict[tuple[str, str], Object]:
    """Return objects by kind and name, without the labels and annotations of Helm and kubectl."""
    found = [{**each, "metadata": _own_metadata(each["metadata"])} for each in objects]
    for each in found:
        # kustomize 5.7 takes these kinds for ones with a namespace, which the API server drops.
        if each["kind"].startswith("ValidatingAdmissionPolicy"):
            each["metadata"].pop("namespace", None)
    assert len(by_name(found)) == len(found), "two objects with one name"
    return by_name(found)


def _own_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    own = dict(metadata)
    for group in ("labels", "annotations"):
        kept = {key: each for key, each in own.pop(group, {}).items() if key not in ADDED}
        if kept:
            own[group] = kept
    return own


def parsed(text: str | bytes) -> list[Object]:
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


#: Values beyond the choices of kustomize.
TUNED: Final[dict[str, Any]] = {
    "image": {"repository": IMAGE, "digest": f"sha256:{7:064x}", "pullSecrets": [{"name": "key"}]},
    "commonLabels": {"team": "web"},
    "rbac": {"create": False},
    "externalMetrics": {"enabled": True, "caBundle": "QQ=="},
    "activator": {
        # Helm reads numbers of files as floats: this one would become 1e+06.
        "settings": {"ACTIVATOR_QUEUE_DEPTH": 1_000_000, "ACTIVATOR_BORROW": False},
        "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/ca.pem"}],
        "replicas": 3,
        "autoscaling": {"enabled": False},
        "podDisruptionBudget": {"minAvailable": 2},
        "podLabels": {"tier": "edge"},
        "nodeSelector": {"disk": "fast"},
        "livenessProbe": {"httpGet": {"scheme": "HTTPS"}},
        "podSecurityContext": {"runAsUser": None},
        "extraContainers": [{"name": "login", "image": "r.example/login"}],
    },
    "scaler": {"settings": {"ACTIVATOR_TAKEOVER_PORTS": "20000-20099"}},
    "networkPolicies": {"enabled": True, "gateways": ["edge"], "dnsCache": ""},
}


HOW_TO: Final = ROOT / "docs" / "how-to" / "deploy-with-helm.md"


def documented() -> dict[str, Any]:
    """Return the values of the how-to's examples, merged as Helm merges files."""
    first, *others = re.findall(r"^```yaml\n(.*?)^```", HOW_TO.read_text(), re.M | re.S)
    merged: dict[str, Any] = yaml.load(first, yaml.CSafeLoader)
    for other in others:
        merged["activator"] |= yaml.load(other, yaml.CSafeLoader)["activator"]
    return merged


class Installed(NamedTuple):
    """The result of ``helm install --dry-run`` for each choice."""

    objects: dict[str, list[Object]]
    notes: dict[str, str]
    kustomizations: dict[str, Path]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("chart")
    shutil.copytree(
        MANIFESTS,
        folder / "manifests",
        ignore=shutil.ignore_patterns("chart", "monitoring", "overlays"),
    )
    values = {
        name: {**choice.values, "image": {"repository": IMAGE}} for name, choice in CHOICES.items()
    }
    chart_of_all = parent(folder / "parent", {**values, "tuned": TUNED, "documented": documented()})
    options = ("--namespace", NAMESPACE, "--dry-run=client", "--render-subchart-notes")
    text = helm("install", "activator", chart_of_all, *options).stdout
    manifest, _, notes = text.partition("\nNOTES:\n")
    return Installed(
        {name: parsed(source) for name, source in _by_chart(manifest)},
        dict(_notes_by_chart(notes)),
        {name: kustomization(folder / "manifests", name, each) for name, each in CHOICES.items()},
    )


def _by_chart(manifest: str) -> Iterator[tuple[str, str]]:
    """Yield the documents of each copy of the chart: a comment names the source of each."""
    found = re.findall(
        r"^# Source: parent/charts/(\w+)/(.*?)(?=^---\n# Source|\Z)", manifest, re.M | re.S
    )
    for name, group in groupby(sorted(found), key=lambda each: each[0]):
        yield name, "\n---\n#".join(["", *(text for _, text in group)])


def _notes_by_chart(notes: str) -> Iterator[tuple[str, str]]:
    """Yield the notes of each copy of the chart, whose first line has its name and version."""
    first = rf"^(\w+) {re.escape(__version__)} is installed"
    _, *found = re.split(first, notes, flags=re.M)
    yield from zip(found[::2], found[1::2], strict=True)


# -- The same objects ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHOICES)
def test_the_chart_makes_the_objects_of_kustomize(installed: Installed, name: str) -> None:
    ours = of_kustomize(installed.objects[name])
    theirs = of_kustomize(expected(installed.kustomizations[name], CHOICES[name]))
    assert ours.keys() == theirs.keys()
    expect_none(f"{kind} {each}" for kind, each in ours if ours[kind, each] != theirs[kind, each])


def test_each_component_of_kustomize_is_in_a_choice() -> None:
    """A new component needs a value of the chart."""
    chosen = {component for choice in CHOICES.values() for component in choice.components}
    assert chosen == {path.name for path in (MANIFESTS / "components").iterdir()}


class Discovery(BaseHTTPRequestHandler):
    """An API server without objects, which knows the kinds of ``objects``."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    objects: tuple[Object, ...] = ()

    def do_GET(self) -> None:
        document = self._document(self.path.partition("?")[0].strip("/"))
        content = json.dumps(document).encode()
        self.send_response(200 if document["kind"] != "Status" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _document(self, path: str) -> dict[str, Any]:
        versions = {each["apiVersion"] for each in self.objects}
        if path == "api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "apis":
            groups = [self._group(each) for each in sorted(versions) if "/" in each]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        version = path.removeprefix("apis/").removeprefix("api/")
        if version in versions:
            return self._resources(version)
        return {"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404}

    def _group(self, group_version: str) -> dict[str, Any]:
        group, _, version = group_version.partition("/")
        known = {"groupVersion": group_version, "version": version}
        return {"name": group, "versions": [known], "preferredVersion": known}

    def _resources(self, version: str) -> dict[str, Any]:
        kinds = {
            each["kind"]: "namespace" in each["metadata"]
            for each in self.objects
            if each["apiVersion"] == version
        }
        resources = [
            {
                "name": plural(kind),
                "kind": kind,
                "namespaced": namespaced,
                "verbs": ["get", "patch"],
            }
            for kind, namespaced in kinds.items()
        ]
        return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}

    def log_message(self, format: str, *args: Any) -> None:
        """Print no line for each request."""


def plural(kind: str) -> str:
    """Return the name of a kind in paths."""
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def test_kubectl_applies_the_chart_as_it_applies_the_overlay(
    installed: Installed, tmp_path: Path
) -> None:
    """``helm template | kubectl apply --dry-run=client`` prints the objects of the overlay."""
    objects = tuple(installed.objects["everything"])
    handler = type("OfTheChart", (Discovery,), {"objects": objects})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        options = ("--dry-run=client", "--validate=false", "--output=json", "--filename=-")
        done = subprocess.run(
            [program_path(PINNED), "apply", "--server", address, *options],
            input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
            env={"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        server.shutdown()
        server.server_close()
    assert not done.returncode, done.stderr
    theirs = expected(installed.kustomizations["everything"], CHOICES["everything"])
    assert of_kustomize(json.loads(done.stdout)["items"]) == of_kustomize(theirs)


# -- Values beyond kustomize -----------------------------------------------------------------------


def test_values_reach_their_fields(installed: Installed) -> None:
    objects = by_name(installed.objects["tuned"])
    deployment = objects["Deployment", "activator"]
    pod = deployment["spec"]["template"]
    container, login = pod["spec"]["containers"]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["ACTIVATOR_QUEUE_DEPTH"] == "1000000"
    assert environment["ACTIVATOR_BORROW"] == "false"
    assert environment["SSL_CERT_FILE"] == "/ca.pem"
    assert deployment["spec"]["replicas"] == 3
    assert ("HorizontalPodAutoscaler", "activator") not in objects
    assert objects["PodDisruptionBudget", "activator-pdb"]["spec"]["minAvailable"] == 2
    assert container["image"] == f"{IMAGE}@sha256:{7:064x}"
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert (pod["metadata"]["labels"]["tier"], login["name"]) == ("edge", "login")
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}
    assert pod["spec"]["imagePullSecrets"] == [{"name": "key"}]
    assert "runAsUser" not in pod["spec"]["securityContext"]
    assert {each["metadata"]["labels"]["team"] for each in objects.values()} == {"web"}
    assert not {kind for kind, _ in objects if "Role" in kind}


def test_values_of_one_program_reach_the_other_objects(installed: Installed) -> None:
    objects = by_name(installed.objects["tuned"])
    (service,) = (each for (kind, _), each in objects.items() if kind == "APIService")
    assert service["spec"]["caBundle"] == "QQ=="
    assert "insecureSkipTLSVerify" not in service["spec"]
    clients, peers, takeover, _ = objects["NetworkPolicy", "activator-services-in"]["spec"][
        "ingress"
    ]
    assert peers["ports"] == [{"port": 8012}]
    assert takeover == {"ports": [{"port": 20000, "endPort": 20099}]}
    (namespaces,) = clients["from"]
    assert namespaces["namespaceSelector"]["matchExpressions"][0]["values"] == ["edge"]


def test_uninstalling_keeps_only_the_objects_that_knative_also_has(installed: Installed) -> None:
    def kept(name: str) -> set[tuple[str, str]]:
        return {
            key
            for key, each in by_name(installed.objects[name]).items()
            if "helm.sh/resource-policy" in each["metadata"].get("annotations", {})
        }

    assert kept("everything") == kept("dropin") == knative.OBJECTS
    assert not kept("services")


# -- Notes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words", "absent"),
    [
        (
            "dropin",
            ["activator status", "serving-core.yaml"],
            ["annotate", "activator-scale"],
        ),
        ("services", ["deployment/activator-scale", "annotate service"], ["uninstall", "Network"]),
        ("servicesAlone", ["WARNING: scaler.enabled is false"], ["deployment/activator-scale"]),
        ("both", ["activator status", "annotate service", "deployment/activator-scale"], []),
        ("everything", ["kourier-system", "KEDA: keda", "apiservice"], ["WARNING"]),
    ],
)
def test_notes_say_what_to_do_next(
    installed: Installed, name: str, words: list[str], absent: list[str]
) -> None:
    notes = installed.notes[name]
    assert f"-n {NAMESPACE} rollout status deployment/activator" in notes
    assert [word for word in words if word not in notes] == []
    assert [word for word in absent if word in notes] == []


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        ("terminationGracePeriodSeconds=584", True),
        ("terminationGracePeriodSeconds=585", False),
        ("terminationGracePeriodSeconds=60,activator.settings.ACTIVATOR_DRAIN_TIMEOUT=10s", False),
    ],
)
def test_notes_warn_of_a_grace_period_that_the_drain_exceeds(values: str, warned: bool) -> None:
    defaults = {row.variable: row.default_text("run") for row in settings_of("run")}
    lame_duck, drain = defaults["ACTIVATOR_LAME_DUCK"], defaults["ACTIVATOR_DRAIN_TIMEOUT"]
    assert (lame_duck, drain, 45 + 525 + 15) == ("45s", "525s", 585)
    options = ["--dry-run=client", "--set", f"image.repository={IMAGE},activator.{values}"]
    done = helm("install", "activator", CHART, *options)
    assert ("WARNING: kubelet kills an activator 584 s after SIGTERM" in done.stdout) is warned
    assert ("WARNING" in done.stdout) is warned


# -- Errors ----------------------------------------------------------------------------------------

#: Wrong values, and the error for each.
WRONG: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "unknown": ({"dialekt": "both"}, "at '': additional properties 'dialekt' not allowed"),
    "inner": (
        {"activator": {"autoscaling": {"minReplica": 2}}},
        "at '/activator/autoscaling': additional properties 'minReplica' not allowed",
    ),
    "setting": (
        {"activator": {"settings": {"ACTIVATOR_QUEUE_DEPHT": 1}}},
        "at '/activator/settings': additional properties 'ACTIVATOR_QUEUE_DEPHT' not allowed",
    ),
    "ours": (
        {"scaler": {"settings": {"ACTIVATOR_STAT_PORT": 1}}},
        "at '/scaler/settings': additional properties 'ACTIVATOR_STAT_PORT' not allowed",
    ),
    "number": (
        {"activator": {"settings": {"ACTIVATOR_QUEUE_DEPTH": "many"}}},
        "at '/activator/settings/ACTIVATOR_QUEUE_DEPTH': 'many' does not match",
    ),
    "duration": (
        {"activator": {"settings": {"ACTIVATOR_LAME_DUCK": "30"}}},
        "at '/activator/settings/ACTIVATOR_LAME_DUCK': '30' does not match",
    ),
    "word": (
        {"activator": {"settings": {"ACTIVATOR_BORROW": "off"}}},
        "at '/activator/settings/ACTIVATOR_BORROW': value must be one of true, false, '', 'true'",
    ),
    "type": ({"scaler": {"replicas": "two"}}, "at '/scaler/replicas': got string, want integer"),
    "boolean": (
        {"admission": {"enabled": "on"}},
        "at '/admission/enabled': got string, want boolean",
    ),
    "dialect": (
        {"dialect": "knative,services"},
        "at '/dialect': value must be one of 'services', 'knative', 'both'",
    ),
    "tag": ({"image": {"tag": 7}}, "at '/image/tag': got number, want string"),
    "digest": ({"image": {"digest": "sha256:7"}}, "at '/image/digest': 'sha256:7' does not match"),
    "selector": ({"activator": {"podLabels": {"app": "a"}}}, "at '': invalid propertyName 'app'"),
    "resources": (
        {"scaler": {"resources": {"limit": {}}}},
        "at '/scaler/resources': additional properties 'limit' not allowed",
    ),
}


def test_a_wrong_value_is_refused_by_its_name(tmp_path: Path) -> None:
    copies = {name: values for name, (values, _) in WRONG.items()}
    done = helm("template", parent(tmp_path / "parent", copies), check=False)
    assert done.returncode
    found = dict(re.findall(r"^(\w+):\n((?:- .*\n)+)", done.stderr, re.M))
    expect_none(
        f"{name}: {found.get(name)}"
        for name, (_, error) in WRONG.items()
        if not found.get(name, "").startswith(f"- {error}")
    )


def test_values_that_contradict_each_other_are_named_all_at_once() -> None:
    wrong = {
        "dialect=services": "internalTls.enabled needs dialect: knative or both",
        "internalTls.enabled=true": "image.repository is empty",
        "scaler.enabled=false": "",
        "externalMetrics.enabled=true": "externalMetrics.enabled needs the scaler",
        "monitoring.podMonitor.enabled=true": "monitoring.podMonitor.enabled needs the scaler",
        "activator.autoscaling.minReplicas=30": "activator.autoscaling.minReplicas is above",
    }
    done = helm("template", CHART, "--set", ",".join(wrong), check=False)
    assert done.returncode
    assert "the values cannot be used:" in done.stderr
    expect_none(text for text in wrong.values() if text not in done.stderr)


@pytest.mark.parametrize(
    ("version", "dialect", "error"),
    [
        (
            "1.29.9",
            "services",
            "admissionPolicy.enabled needs Kubernetes 1.30, and this is v1.29.9",
        ),
        ("1.34.0", "knative", "admissionPolicy.enabled needs dialect: services or both"),
    ],
)
def test_the_admission_policy_needs_services_and_a_kubernetes_that_has_it(
    version: str, dialect: str, error: str
) -> None:
    values = f"image.repository=r.example/a,admissionPolicy.enabled=true,dialect={dialect}"
    place = ("--namespace", "knative-serving", "--kube-version", version)
    done = helm("template", CHART, *place, "--set", values, check=False)
    assert error in done.stderr


@pytest.mark.parametrize(
    ("image", "error"),
    [
        ("repository=r.example/a:1.0", 'image.repository is "r.example/a:1.0": .* image.tag'),
        ("repository=https://r.example/a", 'image.repository is "https://r.example/a": '),
        ("repository=r.example/OWNER/a", 'image.repository is "r.example/OWNER/a": .*lower case'),
        ("repository=r.example/a@sha256", 'image.repository is "r.example/a@sha256": '),
        ("repository=a,image.tag=1@sha256:7", 'image.tag is "1@sha256:7": .* image.digest'),
        ("repository=localhost:5000/o-w/a__b,image.tag=v1.2_x", None),
    ],
)
def test_an_image_that_cannot_exist_is_refused(image: str, error: str | None) -> None:
    done = helm("template", CHART, "--set", f"image.{image}", check=False)
    if error is None:
        assert 'image: "localhost:5000/o-w/a__b:v1.2_x"' in done.stdout
    else:
        assert re.search(error, done.stderr)


def test_the_how_to_names_values_that_exist(installed: Installed) -> None:
    names = {".".join(value.path) for value in chart.values()}
    groups = {value.path[0] for value in chart.values()}
    page = HOW_TO.read_text()
    said = set(re.findall(r"[`, ]([a-zA-Z]+(?:\.[a-zA-Z]+)+)(?==|`)", page))
    expect_none(each for each in said if each.partition(".")[0] in groups and each not in names)
    assert {"image.repository", "internalTls.enabled", "knative.keepOnUninstall"} <= said
    kinds = {kind for kind, _ in by_name(installed.objects["documented"])}
    assert {"NetworkPolicy", "ServiceMonitor", "PodMonitor", "PrometheusRule"} <= kinds


def test_no_chart_of_knative_goes_to_the_default_namespace() -> None:
    options = "dialect=both,image.repository=r.example/a"
    done = helm("template", CHART, "--set", options, check=False)
    assert "the namespace is default" in done.stderr


# -- The package and its generated parts -----------------------------------------------------------


def test_helm_lints_and_packs_the_chart(tmp_path: Path) -> None:
    """The package has the files behind the links: it needs nothing else of the project."""
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", CHART).stdout
    helm("package", CHART, "--destination", tmp_path)
    with tarfile.open(tmp_path / f"activator-{__version__}.tgz") as package:
        sizes = {each.name.removeprefix("activator/"): each.size for each in package}
        assert all(each.isfile() for each in package)
    monitoring = MANIFESTS / "monitoring"
    linked = {
        f"files/dashboards/{each.name}": each for each in monitoring.glob("dashboards/*.json")
    }
    linked["files/rules.yaml"] = monitoring / "rules.yaml"
    linked["files/admission-policy.yaml"] = admission_policy.FILE
    assert {name: sizes[name] for name in linked} == {
        name: path.stat().st_size for name, path in linked.items()
    }
    own = {str(each.relative_to(CHART)) for each in CHART.rglob("*.*") if each.is_file()}
    assert set(sizes) == own | linked.keys()


def test_the_chart_has_the_version_and_the_kubernetes_of_the_project() -> None:
    about = yaml.load((CHART / "Chart.yaml").read_text(), yaml.CSafeLoader)
    assert (about["version"], about["appVersion"]) == (__version__, __version__)
    assert about["kubeVersion"] == f">={OLDEST_FOR_SERVICES}.0-0"


@pytest.mark.parametrize(
    ("version", "options", "minimum"),
    [
        ("1.24.9", "dialect=services", None),
        ("1.25.0", "dialect=services", "v1.25.0"),
        ("1.25.0", "activator.settings.KUBERNETES_MIN_VERSION=v1.20.0", "v1.20.0"),
        ("1.33.9", "dialect=knative", None),
        ("1.33.9", "dialect=both,activator.settings.KUBERNETES_MIN_VERSION=v1.30.0", "v1.30.0"),
        ("1.34.0-eks-1", "dialect=knative", ""),
    ],
)
def test_an_old_kubernetes_is_refused_before_the_program_refuses_it(
    version: str, options: str, minimum: str | None
) -> None:
    options = f"image.repository=r.example/a,{options}"
    place = ("--namespace", "knative-serving", "--kube-version", version)
    done = helm("template", CHART, *place, "--set", options, check=False)
    if minimum is None:
        assert re.search(r"kubeVersion: >=1\.25|Kubernetes v1\.33\.9 .* needs 1\.34", done.stderr)
        return
    assert not done.returncode, done.stderr
    container = find(parsed(done.stdout), "Deployment", "activator")["spec"]["template"]["spec"]
    environment = container["containers"][0]["env"]
    found = [e["value"] for e in environment if e["name"] == "KUBERNETES_MIN_VERSION"]
    assert found == ([minimum] if minimum else [])


# -- Runbooks --------------------------------------------------------------------------------------


def test_each_alert_can_have_the_address_of_its_runbook(tmp_path: Path) -> None:
    base = "https://docs.example.com/activator/runbooks"
    rules = f"monitoring.rules.enabled=true,monitoring.rules.runbookUrl={base}/"
    options = ("--set", f"image.repository=r.example/a,{rules}")
    made = parsed(helm("template", CHART, *options).stdout)
    alerts = _alerts(find(made, "PrometheusRule", "activator"))
    assert alerts
    for alert in alerts:
        assert alert["annotations"]["runbook_url"] == f"{base}/{alert['alert']}.md"
        assert alert["annotations"]["runbook"] == f"docs/runbooks/{alert['alert']}.md"
    # The command for kustomize makes the same addresses.
    page = (ROOT / "docs" / "how-to" / "dashboards.md").read_text()
    (script,) = re.findall(r"^\$ sed -i '(.*)' manifests/monitoring/rules\.yaml$", page, re.M)
    copy = shutil.copy(MANIFESTS / "monitoring" / "rules.yaml", tmp_path)
    subprocess.run(["sed", "-i", script, copy], check=True)
    changed = [
        each["annotations"]["runbook_url"] for each in _alerts(*parsed(Path(copy).read_text()))
    ]
    assert changed == [each["annotations"]["runbook_url"] for each in alerts]


def _alerts(rules: Object) -> list[Object]:
    return [rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]


def test_schema_and_readme_are_those_of_the_values() -> None:
    assert SCHEMA.read_text() == chart.schema_text(), HINT
    assert README.read_text() == chart.with_table(README.read_text()), HINT


def test_the_schema_is_closed_except_for_objects_of_kubernetes() -> None:
    def objects(at: Any, path: str) -> Iterator[tuple[str, Any]]:
        if "properties" in at:
            yield path, at
        for name, inner in at.get("properties", {}).items():
            yield from objects(inner, f"{path}.{name}")

    found = dict(objects(json.loads(SCHEMA.read_text()), ""))
    expect_none(path for path, each in found.items() if each["additionalProperties"] is not False)
    assert {"", ".activator", ".activator.settings", ".monitoring.rules"} <= found.keys()


#: Texts that one form or another accepts, or that people write by mistake.
TEXTS: Final = (
    *(
        "",
        "0",
        "1",
        "30",
        "30s",
        "1m30s",
        "1.5h",
        ".5s",
        "300ms",
        "5µs",
        "-1",
        "many",
        "1.5",
        "1e3",
    ),
    *("true", "True", "T", "f", "FALSE", "off", "64KiB", "1Mi", "5g", "7B", "1Ti", "auto", "json"),
)


def accepts(kind: Kind[Any], text: str) -> bool:
    """Return whether the program accepts a text of one form."""
    try:
        kind.parse(text)
    except ValueError:
        return False
    return True


def test_the_schema_accepts_each_text_that_the_program_accepts() -> None:
    programs = json.loads(SCHEMA.read_text())["properties"]
    refused = 0
    for program, rows in (("activator", settings_of("run")), ("scaler", OF_THE_SCALER)):
        schemas = programs[program]["properties"]["settings"]["properties"]
        for row in rows:
            if row.variable not in schemas:
                continue
            validator = jsonschema.Draft7Validator(schemas[row.variable])
            for text in TEXTS:
                if not validator.is_valid(text):
                    refused += 1
                    assert not accepts(row.kind, text), f"{row.variable}={text}"
                    # An empty text is the same as none; the network policy reads these ports.
                    assert text or row.variable == "ACTIVATOR_TAKEOVER_PORTS"
    assert refused > 400


def test_each_setting_is_a_value_or_the_charts_own() -> None:
    programs = json.loads(SCHEMA.read_text())["properties"]
    for program, rows in (("activator", settings_of("run")), ("scaler", OF_THE_SCALER)):
        known = {row.variable for row in rows}
        values = programs[program]["properties"]["settings"]["properties"].keys()
        assert values == known - chart.OWNED
    every = {row.variable for row in (*settings_of("run"), *OF_THE_SCALER)}
    assert every >= chart.OWNED
