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
        """Returns once it says that it is ready.

        Arguments:
            timeout: seconds.

        Raises:
            CannotMeasure: it ended, or takes too long.
        """
        wait_until(self._is_ready, "the activator is ready", timeout)

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise CannotMeasure(
                f"the activator ended with status {self._process.returncode}: {self.log}"
            )
        try:
            return self.ask("/readyz")[0] == OK
        except OSError:
            return False

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def ended(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self._process.poll()

    def faults(self) -> list[str]:
        """Return the lines of its log that report an error, and those that are no log lines."""
        return [line for line in self.log.read_text().splitlines() if not _is_harmless(line)]

    def ask(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET from its admin side.

        Raises:
            OSError: it does not answer.
        """
        return get(self._admin_port, path)

    def queued(self, name: str = NAME) -> int:
        """How many requests wait for a pod of the revision."""
        return int(self._about(name)["queued"])

    def pods(self, name: str = NAME) -> int:
        """How many pods of the revision it knows."""
        return len(self._about(name)["pods"])

    def _about(self, name: str) -> dict[str, Any]:
        status, body = self.ask(f"/api/v1/revisions/default/{name}")
        if status != OK:
            raise CannotMeasure(f"the admin API answers {status} for default/{name}")
        found: dict[str, Any] = json.loads(body)
        return found

    def list_pods(self, pods: Sequence[PodAddress], name: str = NAME) -> None:
        """Writes the revision's Endpoints anew."""
        write_object(self._manifests, private_endpoints(name, pods))


def _is_harmless(line: str) -> bool:
    try:
        return json.loads(line)["severity"] in ("DEBUG", "INFO", "WARNING")
    except (ValueError, LookupError, TypeError):
        return False


def get(port: int, path: str, host: str = "localhost") -> tuple[int, bytes]:
    """Status and body of a GET over a new connection.

    Raises:
        OSError: no answer.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise ConnectionError(f"no HTTP answer from port {port}: {error}") from error
    finally:
        connection.close()


def write_revision(manifests: Path, pods: Sequence[PodAddress], **settings: Any) -> None:
    """Writes the revision `NAME`, or another ``name``, with its pods.

    Arguments:
        settings: keyword arguments of `activator.lab.objects.revision`.
    """
    name = settings.pop("name", NAME)
    manifests.mkdir(exist_ok=True)
    write_object(manifests, revision(name, **settings))
    write_object(manifests, private_endpoints(name, pods, h2c=settings.get("h2c", False)))


def command(manifests: Path, port: int, admin_port: int) -> list[str]:
    """The activator's command line, without the interpreter."""
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
    """An activator that is ready.

    Arguments:
        flags: further ones.
        before: a program that runs the interpreter, with its arguments; it may be slow.
        log: the name of its log.
    """
    with held_port() as port, held_port() as admin_port:
        line = [*before, sys.executable, *command(manifests, port, admin_port), *flags]
        with started(line, log) as process:
            found = Activator(process, port, admin_port, manifests, RESULTS / f"{log}.log")
            found.wait_ready(_SLOW * START_TIMEOUT if before else START_TIMEOUT)
            yield found
