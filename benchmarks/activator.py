"""The activator as users start it: a process that watches a folder of manifests."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

from activator.lab.objects import PodAddress, private_endpoints, revision, write_object
from benchmarks.process import RESULTS, START_TIMEOUT, CannotMeasure, held_port, started, wait_until

NAME = "bench"
HOST = f"{NAME}.default.svc.cluster.local"
OK = 200
#: How many times slower a start may be under a program that runs the interpreter.
_SLOW = 20


class Activator:
    """A running activator."""

    def __init__(
        self, process: Popen[str], port: int, admin_port: int, manifests: Path, log: Path
    ) -> None:
        self.pid = process.pid
        self.port = port
        self.log = log
        self._process = process
        self._admin_port = admin_port
        self._manifests = manifests

    def wait_ready(self, timeout: float = START_TIMEOUT) -> None:
        """Return when the activator reports that it is ready.

        Arguments:
            timeout: seconds.

        Raises:
            CannotMeasure: the activator ended, or the time-out passed.
        """
        wait_until(self._is_ready, "the activator is ready", timeout)

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise CannotMeasure(
                f"the activator ended with status {self._process.returncode}: {self.log}"
            )
        try:
            return self.admin_get("/readyz")[0] == OK
        except OSError:
            return False

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def ended(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self._process.poll()

    def faults(self) -> list[str]:
        """Return the log lines that report an error, and lines that are not JSON."""
        return [line for line in self.log.read_text().splitlines() if not _is_harmless(line)]

    def admin_get(self, path: str) -> tuple[int, bytes]:
        """Send a GET to the admin port; return status and body.

        Raises:
            OSError: no response.
        """
        return get(self._admin_port, path)

    def queued(self, name: str = NAME) -> int:
        """Return how many requests wait for a pod of the revision."""
        return int(self._about(name)["queued"])

    def pods(self, name: str = NAME) -> int:
        """Return how many pods of the revision the activator has."""
        return len(self._about(name)["pods"])

    def usable(self, name: str = NAME) -> int:
        """Return how many pods of the revision get requests."""
        return sum(pod["decision"] == "use" for pod in self._about(name)["pods"])

    def _about(self, name: str) -> dict[str, Any]:
        status, body = self.admin_get(f"/api/v1/revisions/default/{name}")
        if status != OK:
            raise CannotMeasure(f"the admin API returns {status} for default/{name}")
        found: dict[str, Any] = json.loads(body)
        return found

    def list_pods(self, pods: Sequence[PodAddress], name: str = NAME) -> None:
        """Write the revision's Endpoints with these pods."""
        write_object(self._manifests, private_endpoints(name, pods))


def _is_harmless(line: str) -> bool:
    try:
        return json.loads(line)["severity"] in ("DEBUG", "INFO", "WARNING")
    except (ValueError, LookupError, TypeError):
        return False


def get(port: int, path: str, host: str = "localhost") -> tuple[int, bytes]:
    """Send a GET over a new connection; return status and body.

    Raises:
        OSError: no response.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise ConnectionError(f"no HTTP response from port {port}: {error}") from error
    finally:
        connection.close()


def write_revision(manifests: Path, pods: Sequence[PodAddress], **settings: Any) -> None:
    """Write the revision `NAME`, or another ``name``, with its pods.

    Arguments:
        settings: keyword arguments of `activator.lab.objects.revision`.
    """
    name = settings.pop("name", NAME)
    manifests.mkdir(exist_ok=True)
    write_object(manifests, revision(name, **settings))
    write_object(manifests, private_endpoints(name, pods, h2c=settings.get("h2c", False)))


def command(manifests: Path, port: int, admin_port: int) -> list[str]:
    """Return the activator's command line, without the interpreter."""
    return [
        *("-m", "activator", "local", "--manifests", str(manifests)),
        *("--bind", "127.0.0.1", "--http-port", str(port), "--h2c-port", "0"),
        *("--metrics-port", "0"),
        *("--admin-bind", "127.0.0.1", "--admin-port", str(admin_port)),
    ]


@contextmanager
def running(
    manifests: Path, *flags: str, before: Sequence[str] = (), log: str = "activator"
) -> Iterator[Activator]:
    """Provide an activator that is ready.

    Arguments:
        flags: further flags.
        before: a program that runs the interpreter, with its arguments; it may be slow.
        log: the name of its log.
    """
    with held_port() as port, held_port() as admin_port:
        line = [*before, sys.executable, *command(manifests, port, admin_port), *flags]
        with started(line, log) as process:
            found = Activator(process, port, admin_port, manifests, RESULTS / f"{log}.log")
            found.wait_ready(_SLOW * START_TIMEOUT if before else START_TIMEOUT)
            yield found
