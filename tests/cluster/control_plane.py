"""The programs of the control plane as processes: etcd, kube-apiserver, kube-controller-manager."""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import time
from pathlib import Path
from typing import Final

import httpx
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cluster.network import NODE, SERVICES
from tests.process import PATIENCE

URL: Final = f"https://{NODE}:6443"
ETCD: Final = "http://127.0.0.1:22379"
_ETCD_SETTINGS: Final = {
    "ETCD_LISTEN_CLIENT_URLS": ETCD,
    "ETCD_ADVERTISE_CLIENT_URLS": ETCD,
    "ETCD_UNSAFE_NO_FSYNC": "true",
}
#: Before a command: it gets SIGKILL if its parent dies, for example a worker of pytest.
END_WITH_PARENT: Final = ("setpriv", "--pdeathsig=KILL")
#: Controllers that need a cloud, volumes, or the node's own controller.
_OMITTED: Final = (
    *("node-lifecycle-controller", "node-ipam-controller", "node-route-controller"),
    *("service-lb-controller", "persistentvolume-attach-detach-controller"),
    *("persistentvolume-binder-controller", "persistentvolume-expander-controller"),
)


class ControlPlane:
    """The control plane of one cluster.

    Attributes:
        kubeconfig: the file with the administrator's credentials.
        token: of the administrator.
    """

    def __init__(self, programs: Path, folder: Path, *flags: str) -> None:
        """
        Arguments:
            programs: the folder with the three programs.
            folder: gets certificates, data and logs.
            flags: more flags of the API server.
        """
        self._flags = flags
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.token = secrets.token_hex(16)
        self._programs = programs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *, controllers: bool = True) -> None:
        """Start all programs, and wait until the API server is ready.

        Arguments:
            controllers: whether to start kube-controller-manager.

        Raises:
            AssertionError: it is not ready in time; the text has the end of its log.
        """
        (self.folder / "log").mkdir(parents=True)
        self._write_credentials()
        self._run("etcd", "--data-dir=etcd", **_ETCD_SETTINGS)
        self.start_api_server()
        self.wait_until_ready()
        if controllers:
            self._start_controllers()

    def _start_controllers(self) -> None:
        self._run(
            "kube-controller-manager",
            *("--kubeconfig", str(self.kubeconfig)),
            *("--controllers", ",".join(["*", *(f"-{name}" for name in _OMITTED)])),
            *("--leader-elect=false", "--secure-port=0"),
            *("--root-ca-file", self._path("ca.crt")),
            *("--service-account-private-key-file", self._path("tokens.key")),
            "--feature-gates=HPAScaleToZero=true",
            "--horizontal-pod-autoscaler-sync-period=2s",
        )

    def start_api_server(self) -> None:
        """Start the API server, also again after `kill_api_server`."""
        self._run(
            "kube-apiserver",
            *("--etcd-servers", ETCD),
            *("--advertise-address", NODE, "--secure-port=6443"),
            *("--tls-cert-file", self._path("server.crt")),
            *("--tls-private-key-file", self._path("server.key")),
            *("--token-auth-file", self._path("tokens.csv")),
            *("--authorization-mode=Node,RBAC", "--allow-privileged"),
            *("--service-cluster-ip-range", SERVICES),
            "--service-account-issuer=https://kubernetes.default.svc",
            *("--service-account-key-file", self._path("tokens.pub")),
            *("--service-account-signing-key-file", self._path("tokens.key")),
            *("--requestheader-client-ca-file", self._path("front-ca.crt")),
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            *("--proxy-client-cert-file", self._path("front.crt")),
            *("--proxy-client-key-file", self._path("front.key")),
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            "--kubelet-preferred-address-types=InternalIP",
            "--feature-gates=HPAScaleToZero=true",
            "--profiling=false",
            *self._flags,
        )

    def kill_api_server(self) -> None:
        """Kill the API server without a farewell to its clients."""
        process = self._processes.pop("kube-apiserver")
        process.kill()
        process.wait()

    def wait_until_ready(self) -> None:
        """Wait until the API server has started."""
        deadline = time.monotonic() + 2 * PATIENCE
        context = ssl.create_default_context(cafile=self._path("ca.crt"))
        headers = {"Authorization": f"Bearer {self.token}"}
        with httpx.Client(base_url=URL, verify=context, headers=headers) as client:
            while True:
                try:
                    if client.get("/readyz").status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                assert self._processes["kube-apiserver"].poll() is None, self.log_end()
                assert time.monotonic() < deadline, self.log_end()
                time.sleep(0.1)  # noqa: TID251 # no loop runs yet, or its test waits for this

    def log_end(self) -> str:
        """Return the last lines of the API server's log."""
        lines = self._log("kube-apiserver").read_text(errors="replace").splitlines()
        return "\n".join(["kube-apiserver:", *lines[-20:]])

    def stop(self) -> None:
        """Kill all programs: their data is not needed again."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def _run(self, program: str, *arguments: str, **environment: str) -> None:
        with self._log(program).open("ab") as log:
            self._processes[program] = subprocess.Popen(
                [*END_WITH_PARENT, str(self._programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # a Ctrl-C ends the tests, which then end the programs
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **environment},
            )

    def _log(self, program: str) -> Path:
        return self.folder / "log" / f"{program}.log"

    def _path(self, name: str) -> str:
        return str(self.folder / name)

    def _write_credentials(self) -> None:
        authority, front = trustme.CA(), trustme.CA()
        server = authority.issue_cert(
            *(NODE, "127.0.0.1", "10.96.0.1", "localhost"),
            *("kubernetes", "kubernetes.default", "kubernetes.default.svc"),
        )
        client = front.issue_cert("front-proxy-client", common_name="front-proxy-client")
        authority.cert_pem.write_to_path(self._path("ca.crt"))
        front.cert_pem.write_to_path(self._path("front-ca.crt"))
        for name, issued in {"server": server, "front": client}.items():
            issued.private_key_pem.write_to_path(self._path(f"{name}.key"))
            issued.cert_chain_pems[0].write_to_path(self._path(f"{name}.crt"))
        key = rsa.generate_private_key(65537, 2048)
        (self.folder / "tokens.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        (self.folder / "tokens.pub").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        (self.folder / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
            "clusters": [
                {
                    "name": "tests",
                    "cluster": {"server": URL, "certificate-authority": self._path("ca.crt")},
                }
            ],
            "users": [{"name": "admin", "user": {"token": self.token}}],
        }
        self.kubeconfig.write_text(json.dumps(config))
