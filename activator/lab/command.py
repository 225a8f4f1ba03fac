"""``activator lab``: run scenarios and print their timelines and results.

A signal ends the command in order: no process is left. `Printer` chooses the colours, by the style
of each row.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from asyncio import Future, Task
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from activator.lab.addresses import AddressPool
from activator.lab.control_plane.plane import KUBECONFIG
from activator.lab.environment import Environment
from activator.lab.pod import PodOptions
from activator.lab.programs import own_command
from activator.lab.scenario import Scenario, ScenarioOutcome, run_scenario
from activator.lab.scenarios import SCENARIOS, find
from activator.lab.timeline import TimelineEntry, Who

_INDENT = "  "


class ReportRow(NamedTuple):
    """One line in columns.

    Attributes:
        style: a value of `Who`, or one of title, text, passed, failed.
        columns: from the left; only a line of a timeline has more than one column.
    """

    style: str
    columns: tuple[str, ...]

    @property
    def plain(self) -> str:
        """The row as a line without colours."""
        return _INDENT.join(self.columns).rstrip()


def text(line: str = "", style: str = "text") -> ReportRow:
    """Return a row of one column, for a line outside the timeline."""
    return ReportRow(style, (line,))


def listing(scenarios: Iterable[Scenario]) -> list[ReportRow]:
    """Return a row for each scenario: number, name and title."""
    listed = tuple(scenarios)
    width = max(len(each.name) for each in listed)
    return [ReportRow("text", (f"{s.number:>2}", f"{s.name:<{width}}", s.title)) for s in listed]


def heading(scenario: Scenario, number: int, count: int) -> list[ReportRow]:
    """Return rows with the title, the behaviour of others and the required behaviour.

    Arguments:
        number, count: the scenario's position in this run, and how many there are.
    """
    other, behaviour = "Knative", scenario.knative
    if scenario.kubernetes:
        other, behaviour = "Kubernetes alone", scenario.kubernetes
    return [
        text(f"{scenario.number} {scenario.name}: {scenario.title} ({number} of {count})", "title"),
        text(f"{_INDENT}{other}: {behaviour}"),
        text(f"{_INDENT}{'here:':<{len(other) + 1}} {scenario.here}"),
        text(),
    ]


def entry(found: TimelineEntry) -> ReportRow:
    """Return one line of a timeline: seconds since the start, actor, event."""
    style, who = found.who.value, found.who.value
    if found.who is Who.CHECK:
        style = who = "passed" if found.passed else "failed"
    return ReportRow(style, (f"{found.at:9.3f}", f"{who:<10}", found.what))


def timeline(outcome: ScenarioOutcome) -> list[ReportRow]:
    """Return all lines of a timeline, and the error that ended it early."""
    rows = [entry(found) for found in outcome.entries]
    if outcome.error:
        cause = "by a signal" if outcome.outcome == "interrupted" else outcome.error
        rows.append(ReportRow("failed", (" " * 9, f"{outcome.outcome:<10}", cause)))
    return rows


def result(outcome: ScenarioOutcome) -> list[ReportRow]:
    """Return rows that say whether a scenario passed."""
    style = "passed" if outcome.passed else "failed"
    return [text(), text(f"{_INDENT}{outcome.outcome} in {outcome.seconds:.1f} s", style), text()]


def summary(
    outcomes: Sequence[ScenarioOutcome], count: int, *, interrupted: bool = False
) -> list[ReportRow]:
    """Return a row with the number of passed scenarios and the names of failed ones.

    Arguments:
        count: how many scenarios were to run.
        interrupted: whether a signal ended the run.
    """
    failed = [outcome for outcome in outcomes if outcome.outcome == "failed"]
    passed = sum(outcome.passed for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    line = f"{passed} of {count} passed in {seconds:.0f} s"
    if interrupted:
        line = f"interrupted: {line}, {count - passed - len(failed)} not run to the end"
    if not failed:
        return [text(line, "failed" if interrupted else "passed")]
    names = ", ".join(f"{outcome.scenario.number} {outcome.scenario.name}" for outcome in failed)
    return [text(f"{line}; failed: {names}", "failed")]


# Print rows: in colours on a terminal, as plain text to any other stream.

#: rich's styles, by the style of a `Row`; rich reads NO_COLOR.
STYLES = {
    "title": "bold",
    "text": "",
    "fault": "bold magenta",
    "scaler": "bright_blue",
    "pod": "blue",
    "kubernetes": "cyan",
    "activator": "yellow",
    "client": "",
    "passed": "green",
    "failed": "bold red",
}


class Printer:
    """Writes rows to one stream; on a terminal, it also shows the step in progress."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._drawing = out.isatty()
        if self._drawing:  # rich costs start-up time, so plain text does without
            from rich.console import Console

            self._console = Console(file=out, highlight=False)

    def rows(self, rows: Iterable[ReportRow]) -> None:
        """Write rows, and flush the stream."""
        for row in rows:
            if self._drawing:
                self._draw(row)
            else:
                self._out.write(f"{row.plain}\n")
        self._out.flush()

    def _draw(self, row: ReportRow) -> None:
        from rich.table import Table
        from rich.text import Text

        style = STYLES[row.style]
        # Text, not markup: brackets in a pod's response must not select a colour.
        if len(row.columns) == 1:
            self._console.print(Text(row.columns[0], style), soft_wrap=True)
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(*(Text(_printable(column), style) for column in row.columns))
        self._console.print(grid)

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """Show a text on a terminal while the block runs."""
        if not self._drawing:
            yield
            return
        with self._console.status(what):
            yield


def _printable(text: str) -> str:
    """Replace control characters, so that a pod's response cannot control the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


# The guide that ``activator lab --keep`` prints: all addresses, and commands to try.


#: Each switch and its effect; the first three are on the traffic port as well.
SWITCHES = (
    ("Ready", "the readiness probe that queue-proxy runs"),
    ("Live", "the liveness probe of the application"),
    ("Exec", "an exec readiness probe, which queue-proxy cannot see"),
    ("Running", "whether the application runs behind queue-proxy"),
    ("SidecarReady", "the readiness probe of the other container"),
    ("SidecarLive", "the liveness probe of the other container"),
)


def guide(
    traffic: str,
    admin: str,
    objects: str,
    revisions: Iterable[str],
    pods: Iterable[PodOptions],
    probed_switches: Collection[str],
) -> list[ReportRow]:
    """Return the guide as rows.

    Arguments:
        traffic, admin: host and port of the activator for requests, and of its admin API.
        objects: where the activator's objects are: a folder, or a command that shows them.
        probed_switches: the switches that have an effect in this scenario.
    """
    names = list(revisions)
    hosts = [f"{name}.default.svc.cluster.local" for name in names]
    lines = ["All processes keep running. Send requests through the activator:", ""]
    lines += [f"  curl -H 'Host: {host}' http://{traffic}/" for host in hosts]
    lines += ["", "Show the activator's state:", ""]
    lines += [
        f"  {own_command()} explain {name} --admin-url http://{admin} --watch" for name in names
    ]
    lines.append(f"  {own_command()} status --admin-url http://{admin}")
    lines.append(f"  curl http://{admin}/api/v1/revisions")
    lines += ["", "The pods, with their traffic ports and admin ports:", ""]
    for pod in pods:
        where = f"{pod.address}:{pod.port}"
        lines.append(f"  {pod.name:<14} {where:<22} http://{pod.address}:{pod.admin_port}/")
    lines += [
        "",
        "A GET on the admin port toggles a switch. The first three are also on the traffic port,",
        "so you can use them through the activator:",
        "",
    ]
    for name, meaning in SWITCHES:
        idle = "" if name in probed_switches else "; no effect in this scenario"
        lines.append(f"  {'/toggle' + name:<21} {meaning}{idle}")
    lines += ["", f"Objects: {objects}    Ctrl-C ends the lab.", "Events:", ""]
    return [text(line) for line in lines]


#: The version of the JSON document. It grows when a field is removed or changes its meaning.
JSON_VERSION: Final = 1

PASSED, FAILED, INTERRUPTED = 0, 1, 130

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Misuse(Exception):
    """The arguments are wrong; the text says why."""


def show_list(out: TextIO | None = None) -> None:
    """Print number, name and title of all scenarios, to standard output by default."""
    Printer(out or sys.stdout).rows(listing(SCENARIOS))


def run(
    words: Sequence[str],
    *,
    keep: bool = False,
    as_json: bool = False,
    out: TextIO | None = None,
    addresses: AddressPool | None = None,
) -> int:
    """Run scenarios one after the other.

    Arguments:
        words: numbers or names of scenarios; none means all.
        keep: leave the scenario's processes running afterwards, until a signal.
        as_json: print one JSON document and nothing else.
        out: the stream to print to; standard output by default.
        addresses: addresses for pods; 127.0.0.11 and following by default.

    Returns:
        The exit status: 0 if all have passed, 1 if not, 130 after a signal.

    Raises:
        Misuse: a word names no scenario, or the options contradict each other.
    """
    try:
        scenarios = find(words)
    except LookupError as error:
        raise Misuse(str(error.args[0])) from None
    if keep and len(scenarios) != 1:
        raise Misuse("--keep is for one scenario: name it")
    if keep and as_json:
        raise Misuse("--keep prints events at once, --json only at the end: choose one")
    out = out or sys.stdout
    lab = _Lab(scenarios, keep, as_json, out, Printer(out), addresses or AddressPool())
    with asyncio.Runner() as runner:
        return runner.run(lab.run())


@dataclass
class _Lab:
    """One run of the command."""

    scenarios: Sequence[Scenario]
    keep: bool
    as_json: bool
    out: TextIO
    printer: Printer
    addresses: AddressPool
    kept: Future[None] | None = None
    interrupted: bool = False

    async def run(self) -> int:
        """Run all scenarios, unless a signal comes; return the exit status."""
        running = asyncio.ensure_future(self._run_all())
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, running)
        await asyncio.wait([running])
        if running.cancelled():
            return INTERRUPTED
        passed = running.result()  # also after a signal, so that no exception is lost
        if self.interrupted:
            return INTERRUPTED
        return PASSED if passed else FAILED

    def _on_signal(self, running: Task[bool]) -> None:
        """End the kept scenario, or cancel the run; ignore further signals."""
        if self.interrupted:
            return
        self.interrupted = True
        if self.kept is not None:
            self.kept.set_result(None)
        else:
            running.cancel()

    async def _run_all(self) -> bool:
        outcomes = []
        for number, scenario in enumerate(self.scenarios, 1):
            outcomes.append(await self._run_one(scenario, number))
            if self.interrupted:
                break
        if self.as_json:
            document = {
                "version": JSON_VERSION,
                "passed": all(outcome.passed for outcome in outcomes),
                "seconds": round(sum(outcome.seconds for outcome in outcomes), 3),
                "scenarios": [outcome.as_json() for outcome in outcomes],
            }
            json.dump(document, self.out, indent=2)
            self.out.write("\n")
        elif len(self.scenarios) > 1:
            rows = summary(outcomes, len(self.scenarios), interrupted=self.interrupted)
            self.printer.rows(rows)
        return all(outcome.passed for outcome in outcomes)

    async def _run_one(self, scenario: Scenario, number: int) -> ScenarioOutcome:
        if self.as_json:
            return await self._record(scenario)
        self.printer.rows(heading(scenario, number, len(self.scenarios)))
        if self.keep:  # each entry at once, and the processes until a signal
            return await run_scenario(scenario, self.addresses, self._tell, self._keep_running)
        with self.printer.under_way(f"{scenario.name} runs"):
            outcome = await self._record(scenario)
        self.printer.rows([*timeline(outcome), *result(outcome)])
        return outcome

    async def _record(self, scenario: Scenario) -> ScenarioOutcome:
        """Run one scenario and record its entries; after a signal, return the entries so far.

        They show where a script was waiting.
        """
        began = time.monotonic()
        entries: list[TimelineEntry] = []

        def note(found: TimelineEntry) -> None:
            if not self.interrupted:  # leave out the end of the processes
                entries.append(found)

        try:
            return await run_scenario(scenario, self.addresses, note)
        except asyncio.CancelledError:
            return ScenarioOutcome(
                scenario, entries, False, "interrupted", time.monotonic() - began
            )

    def _tell(self, found: TimelineEntry) -> None:
        self.printer.rows([entry(found)])

    async def _keep_running(self, environment: Environment, passed: bool) -> None:
        word = "passed" if passed else "failed"
        self.printer.rows([text(), text(f"  {word}", word), text()])
        self.printer.rows(_guide(environment))
        self.kept = asyncio.get_running_loop().create_future()
        await self.kept


def _guide(environment: Environment) -> list[ReportRow]:
    activator = environment.activator
    apps = environment.apps
    pods = [pod.process.options for app in apps for pod in app.pods if not pod.count("stopped")]
    return guide(
        "{}:{}".format(*activator.traffic),
        "{}:{}".format(*activator.admin),
        _objects(environment.manifests),
        [app.name for app in apps],
        pods,
        {switch for app in apps for switch in app.probed_switches},
    )


def _objects(folder: Path) -> str:
    """Return where the objects are: in a folder, or in an API server with a kubeconfig there."""
    config = folder / KUBECONFIG
    shown = f"kubectl --kubeconfig {config} get deployments,pods,endpointslices"
    return shown if config.exists() else str(folder)
