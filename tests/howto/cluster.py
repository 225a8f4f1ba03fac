"""A cluster as readers of the pages have it: empty, with the product, or with Knative."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.cluster.cluster import AUTOSCALER, Cluster
from tests.howto.pages import ROOT
from tests.howto.table import World
from tests.howto.worlds import Place, environment

OBJECTS: Final = Path(__file__).parent / "objects"
_REMOVE: Final = """\
namespaces="activator-system knative-serving"
for each in $namespaces; do
  kubectl -n $each delete deployments --all --wait=false
  kubectl -n $each delete pods --all --force --grace-period=0
done
kubectl delete namespace $namespaces --ignore-not-found --timeout=60s
for label in app.kubernetes.io/name=activator app.kubernetes.io/name=knative-serving; do
  kubectl delete clusterrole,clusterrolebinding,apiservice -l $label
done
"""
_CLEAR: Final = """\
kubectl delete deployments,statefulsets,hpa,configmaps,secrets --all --wait=false
kubectl delete services -l '!provider'
kubectl delete pods --all --force --grace-period=0
"""
_SERVICES: Final = """\
kubectl apply -k manifests/overlays/services
kubectl -n activator-system rollout status deployment/activator --timeout=90s
kubectl -n activator-system rollout status deployment/activator-scale --timeout=90s
"""
_KNATIVE: Final = """\
cp $OBJECTS/release.yaml .
kubectl apply -f release.yaml || { sleep 1; kubectl apply -f release.yaml; }
kubectl -n knative-serving rollout status deployment/activator --timeout=90s
"""
#: A reader has edited the file that the page names: the image, as it is in the registry.
_EDIT: Final = """\
sed -i s,registry.invalid/activator$,registry.example.com/activator, \
  manifests/overlays/*/kustomization.yaml
sed -i 's,newName: registry.invalid,newName: registry.example.com,' \
  manifests/overlays/*/kustomization.yaml
"""
_EXAMPLE: Final = "kubectl apply -f manifests/examples/sleeping-deployment.yaml\n"


class ReadersCluster:
    """One cluster; each page finds it as its world says."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world: World | None = None
        cluster.image("autoscaler", AUTOSCALER)
        cluster.image("knative-activator", [f"{sys.prefix}/bin/activator"], ["run"])

    @contextmanager
    def place(self, world: World, records: Path) -> Iterator[Place]:
        """Make the cluster as one page needs it."""
        here = records / "here"
        shutil.copytree(ROOT / "manifests", here / "manifests")
        (here / ".venv").symlink_to(sys.prefix)
        own = environment(records / "home")
        own |= {"OBJECTS": str(OBJECTS), "EDITOR": "true"}
        own |= {key: self._cluster.environment[key] for key in ("PATH", "KUBECONFIG")}
        install = {World.BARE: "", World.SERVICES: _SERVICES, World.KNATIVE: _KNATIVE}[world]
        remove = "" if self._world is world is World.SERVICES else _REMOVE
        self._world = world
        script = f"{_CLEAR}{remove}set -e\n{_EDIT}{install}{_EXAMPLE}"
        done = subprocess.run(
            ["timeout", "150", "bash", "-c", script],
            cwd=here, env=own, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{world.value} is not ready:\n{done.stdout}{done.stderr}"
        yield Place(here, (), own)
