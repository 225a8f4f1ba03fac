"""Prometheus and promtool, as Debian's package `prometheus` has them."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, Process
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.manifests.kustomize import MANIFESTS
from tests.process import PATIENCE, until
from tests.programs import need

RULES = MANIFESTS / "monitoring" / "rules.yaml"
#: The Debian package of both programs.
PACKAGE = "prometheus"


def promtool(*arguments: str | Path, given: str = "") -> str:
    """Run promtool, and return its output.

    Raises:
        AssertionError: promtool found an error.
    """
    command = [need("promtool", PACKAGE), *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def write_rules(folder: Path) -> Path:
    """Write the rules without the fields that only the operator reads."""
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(yaml.load(RULES.read_text(), yaml.CSafeLoader)["spec"]))
    return path


def rules(kind: str) -> list[dict[str, Any]]:
    """Return the rules of a kind: `alert` or `record`."""
    groups = yaml.load(RULES.read_text(), yaml.CSafeLoader)["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


class Prometheus:
    """A Prometheus that scrapes targets every second, with the project's rules.

    Attributes:
        port: the port of its API.
    """

    def __init__(self, folder: Path, *targets: str) -> None:
        self._program = need("prometheus", PACKAGE)
        self._folder = folder
        self._targets = targets
        self._process: Process | None = None
        self._client = httpx.AsyncClient(trust_env=False, timeout=PATIENCE)
        self._reading: asyncio.Future[bytes] | None = None
        self.port = 0

    async def __aenter__(self) -> Prometheus:
        write_rules(self._folder)
        configs = [{"targets": list(self._targets)}]
        scrape = {"job_name": "activator-service", "static_configs": configs}
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["spec.yaml"],
            "scrape_configs": [scrape],
        }
        (self._folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self._process = await asyncio.create_subprocess_exec(
            self._program,
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'tsdb'}",
            "--web.listen-address=127.0.0.1:0",
            "--log.format=json",
            stdout=DEVNULL,
            stderr=PIPE,
        )
        try:
            assert self._process.stderr is not None
            await self.listen(self._process.stderr)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def listen(self, log: asyncio.StreamReader) -> None:
        """Wait until its log has the port and the end of the start; threads write them.

        Raises:
            AssertionError: the log ends before.
        """
        lines = []
        is_ready = False
        async with asyncio.timeout(PATIENCE):
            async for line in log:
                lines.append(line.decode())
                said = json.loads(line)
                if said.get("msg") == "Listening on":
                    self.port = int(said["address"].rpartition(":")[2])
                is_ready |= said.get("msg", "").startswith("Server is ready")
                if is_ready and self.port:
                    self._reading = asyncio.ensure_future(log.read())
                    return
        raise AssertionError("".join(lines))

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._process is not None
        await self._client.aclose()
        self._process.kill()
        await self._process.wait()
        if self._reading is not None:
            await self._reading

    async def ask(self, path: str, **params: str) -> Any:
        """Return the data of a response of Prometheus' API.

        Raises:
            AssertionError: the response is an error, which the text names.
        """
        reply = await self._client.get(f"http://127.0.0.1:{self.port}/api/v1/{path}", params=params)
        said = reply.json()
        assert said["status"] == "success", (params, said)
        return said["data"]

    async def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """Return the series of an expression at a moment, by default now."""
        moment = {} if at is None else {"time": f"{at:.3f}"}
        data = await self.ask("query", query=expression, **moment)
        assert data["resultType"] == "vector", expression
        return list(data["result"])

    async def now(self) -> float:
        """Return the time of Prometheus."""
        return float((await self.ask("query", query="time()"))["result"][1])

    async def rules(self) -> list[dict[str, Any]]:
        """Return the state of its rules."""
        return [rule for group in (await self.ask("rules"))["groups"] for rule in group["rules"]]

    async def scraped(self) -> float:
        """Wait until Prometheus has scraped the present state, and evaluated its rules.

        Returns:
            A moment at which it had. A scrape that fails later, on a machine that stalls, takes
            the values of gauges away.
        """
        since = await self.now()
        moment = since

        async def seen() -> bool:
            nonlocal moment
            groups = (await self.ask("rules"))["groups"]
            moment = await self.now()
            up, latest = [await self.query(text, moment) for text in ("up", "timestamp(up)")]
            if not len(up) == len(latest) == len(self._targets):
                return False
            if any(one["value"][1] != "1" for one in up):
                return False
            scraped = min(float(one["value"][1]) for one in latest)
            return scraped > since and all(
                _seconds(group["lastEvaluation"]) > scraped for group in groups
            )

        await until(seen, "Prometheus has scraped once more")
        return moment


def _seconds(moment: str) -> float:
    """Return a time of Go: RFC 3339 with nanoseconds; the year 1 means never."""
    whole, _, rest = moment.partition(".")
    zone = re.search(r"(Z|[+-]\d\d:\d\d)$", rest or whole)
    fraction = re.match(r"\d*", rest)
    assert zone
    assert fraction
    if whole.startswith("0001"):
        return 0.0
    parsed = datetime.fromisoformat(whole.removesuffix(zone[0]) + zone[0])
    return parsed.timestamp() + float(f"0.{fraction[0] or 0}")
