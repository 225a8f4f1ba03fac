"""Defines all commands, their options and exit statuses; runs one of them.

Options are settings, from the tables in activator/settings/config.py and
activator/scale/settings.py. All wrong ones are reported at once. A command imports its modules when
it runs, so ``--help`` is fast. Knative's counterpart: the flags of cmd/activator/main.go, which has
one command and no help.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final

import click

from activator.keda.words import OTHER_VARIABLES
from activator.pages import LIST, SCALER, pages
from activator.process.signals import INTERRUPTED
from activator.scale import settings as scale_settings
from activator.scale.settings import ScaleSettings
from activator.settings.config import SETTINGS, Settings, load, settings_of
from activator.settings.setting import (
    ConfigError,
    SettingRow,
    is_add_on,
    is_add_on_scaler,
    unknown_variables,
)

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2  # also click's status for wrong options
NO_RESPONSE: Final = 3
NOT_KNOWN: Final = 4


# -- help: lines break at spaces alone, so that options and header fields stay whole

#: Click breaks lines at hyphens, but not at this one; it has the same width.
_NO_BREAK: Final = "\u2011"


class _Formatter(click.HelpFormatter):
    """Breaks lines at spaces only, so that the names of options and headers stay whole."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _NO_BREAK))

    def write_dl(self, rows: Iterable[tuple[str, str]], *more: Any, **named: Any) -> None:
        whole = [(term, meaning.replace("-", _NO_BREAK)) for term, meaning in rows]
        super().write_dl(whole, *more, **named)

    def getvalue(self) -> str:
        return super().getvalue().replace(_NO_BREAK, "-")


class HelpContext(click.Context):
    """A context whose help keeps names whole."""

    formatter_class: type[click.HelpFormatter] = _Formatter


class Command(click.Command):
    """A command whose help keeps names whole."""

    context_class: type[click.Context] = HelpContext


class Group(click.Group):
    """A group of commands whose help keeps names whole, and theirs too."""

    context_class: type[click.Context] = HelpContext
    command_class: type[click.Command] | None = Command


# -- commands with settings


class SettingsCommand(Command):
    """A command whose options are settings, shown in help under the headings of the table.

    Only the command that runs makes options of its settings: all options take 0.5 MiB.
    """

    @cached_property
    def _settings(self) -> list[click.Option]:
        assert self.name is not None
        return [_option(row, self.name) for row in _rows(self.name)]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the settings, then all others."""
        return [*self._settings, *super().get_params(ctx)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one block of options for each section, then the options that are no settings."""
        assert self.name is not None
        sections: dict[str, list[tuple[str, str]]] = {}
        rows = {row.name: row for row in _rows(self.name)}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            row = rows.get(param.name or "")
            if record is not None:
                sections.setdefault(row.section if row else "Other", []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def _rows(command: str) -> tuple[SettingRow, ...]:
    """Return the settings of a command; the scaler is a program of its own, with its own table."""
    own = command == scale_settings.COMMAND
    return scale_settings.SETTINGS if own else settings_of(command)


def _option(row: SettingRow, command: str) -> click.Option:
    default = row.default_text(command)
    shown = default if default == "required" else f"default: {default or 'none'}"
    return click.Option(
        [row.flag, row.name],
        type=click.STRING,  # the table parses it, so that flag and variable accept the same
        metavar=row.kind.metavar,
        help=f"{row.meaning} [{row.variable}; {shown}]",
    )


def command(
    name: str, epilog: str, *extra: click.Parameter
) -> Callable[[Callable[..., int]], SettingsCommand]:
    """Return a decorator for a function of (settings, **extra) that returns an exit status.

    The docstring of the function is the help.
    """

    def decorate(function: Callable[..., int]) -> SettingsCommand:
        def callback(**given: Any) -> int:
            others = {str(option.name): given.pop(str(option.name)) for option in extra}
            settings = _settings(name, given)
            return MISUSED if settings is None else function(settings, **others)

        return SettingsCommand(name, None, callback, [*extra], function.__doc__, epilog)

    return decorate


def _settings(command: str, flags: dict[str, str | None]) -> Settings | ScaleSettings | None:
    """Return the settings, and print unknown variables; on errors print them and return None."""
    rows = (*SETTINGS, *scale_settings.SETTINGS)
    known = [name for row in rows for name in row.variables]
    for text in unknown_variables(known, os.environ, OTHER_VARIABLES):
        click.echo(f"activator {command}: {text}", err=True)
    if is_add_on(os.environ) and os.environ.get("PROFILING_BIND_ADDRESS"):
        text = "environment variable PROFILING_BIND_ADDRESS has no effect; see --profiling-port"
        click.echo(f"activator {command}: {text}", err=True)
    environ = os.environ | click.get_current_context().obj
    try:
        if command == scale_settings.COMMAND:
            return scale_settings.load(flags, environ)
        return load(command, flags, environ)
    except ConfigError as error:
        count = len(error.problems)
        what = "a setting is" if count == 1 else f"{count} settings are"
        click.echo(f"activator {command}: {what} wrong or missing:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
        click.echo(f"All settings: activator {command} --help", err=True)
        return None


_CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(
    cls=Group,
    context_settings=_CONTEXT,
    epilog="Help of a command: activator COMMAND --help. All settings with their reasons: "
    "docs/reference.md.",
)
@click.version_option(package_name="activator")
def cli() -> None:
    """Queue requests while no pod can take them, for services that scale to zero.

    The activator is a load balancer for services whose pods come and go. It queues each request
    until a healthy pod of its revision has a free slot. Then it sends the request to that pod. If
    the request's deadline expires first, the client gets 504.

    \b
    First steps:
      activator demo                     a demonstration on this machine, without a cluster
      activator local --manifests DIR    serve objects that you write yourself
      activator run                      serve in a cluster, with or without Knative
      activator scale                    scale Deployments from zero and back, without Knative
      activator status                   show pods and queues of a running activator
      activator explain NAME             show why requests of one revision or object wait
      activator reason NAME              print the page of a reason or of an alert
      activator lab                      replay failures of pods, and policies, on this machine
      activator version                  print version and build

    Annotations of a Revision or a Service choose its policies: a waiting page, wake rules,
    priorities, sticky sessions. docs/how-to/operate.md has a page for each.
    """


# -- the commands that serve or scale until a signal

_SERVER_STATUSES: Final = """\b
Exit status:
    0  ended by SIGTERM or Ctrl-C; all requests ended, or were closed after --drain-timeout
    1  could not start or continue, see the last log line; or ended by a second signal
    2  a setting is wrong or missing; the errors list all of them
  130  ended by Ctrl-C before it served
"""


def _serve(settings: Settings) -> int:
    from activator.app import main as serve

    return serve(settings)


@command("run", _SERVER_STATUSES)
def run(settings: Settings) -> int:
    """Serve in a Kubernetes cluster.

    With the dialect knative, this program replaces Knative's activator. It has the same ports,
    environment variables and responses. With the dialect services, it serves annotated Services
    without Knative. With the dialect keda, it replaces the interceptor of the KEDA HTTP add-on. It
    watches these objects and their endpoints, probes pods, and queues requests. It reports the load
    to Knative's autoscaler, or to `activator scale`.

    \b
    In a pod of Knative's Deployment, no setting is necessary. Outside of the cluster:
      POD_NAME=me POD_IP=10.0.0.9 SYSTEM_NAMESPACE=knative-serving \\
        activator run --kubeconfig ~/.kube/config

    \b
    Look next:
      activator status     after kubectl port-forward deployment/activator 8080
      /readyz, /metrics    on the admin port
    """
    return _serve(settings)


@command("local", _SERVER_STATUSES)
def local(settings: Settings) -> int:
    """Serve without a cluster, from a folder of manifests.

    The folder holds objects in Kubernetes' format, in files that end in .yaml, .yml or .json. A
    Revision needs Endpoints or EndpointSlices. An annotated Service needs EndpointSlices, and may
    have a Deployment or StatefulSet. With --dialect keda, an HTTPScaledObject or InterceptorRoute
    needs a Service and EndpointSlices; ConfigMaps may hold bodies. ConfigMaps hold settings. Files
    that are created, changed, renamed or deleted take effect at once. The log reports a broken
    file, and its last good state stays in force. The activator ignores objects of other kinds, and
    folders within the folder. It also ignores Endpoints without Knative's labels, or without a port
    named http or http2 (docs/reference.md). The log, and `activator explain`, name such objects.

    Sample pods may use the same ports on other loopback addresses. Use --bind 127.0.0.1 for that:
    the default 0.0.0.0 occupies the port on all of them.

    \b
    Example, with a revision default/hello in ./objects:
      activator local --manifests ./objects --bind 127.0.0.1
      curl -H 'Knative-Serving-Namespace: default' \\
           -H 'Knative-Serving-Revision: hello' http://127.0.0.1:8012/

    \b
    Look next:
      activator status     pods, requests in flight and queued requests
      activator demo       writes such a folder and starts pods for it
    """
    return _serve(settings)


@command("demo", _SERVER_STATUSES)
def demo(settings: Settings) -> int:
    """Show on this machine how requests wait for pods that start.

    Starts local mode on loopback addresses with sample services that are scaled to zero. The
    first request to a service is queued while its pod starts, and then gets its response. A pod
    without requests is stopped. One service is a plain Deployment, which `activator scale`
    scales. Prints commands and addresses to try. Ends with Ctrl-C.

    \b
    Example:
      activator demo
      activator demo --http-port 0 --admin-port 0    any free ports, which it prints

    \b
    Look next, in another terminal:
      activator status     while a request waits
    """
    return _serve(settings)


@command(
    "scale",
    """\b
Exit status:
    0  ended by SIGTERM or Ctrl-C; the Lease is released
    1  could not start or continue, see the last log line; or ended by a second signal
    2  a setting is wrong or missing; the errors list all of them
  130  ended by Ctrl-C before it served
    With --wake-all: 0 if all workloads are awake, 1 if not
""",
    click.Option(
        ["--wake-all"],
        is_flag=True,
        help="Wake the workloads of all Services, print their names, and end: before the scaler is "
        "removed. No other scaler may run.",
    ),
)
def scale(settings: ScaleSettings, wake_all: bool) -> int:
    """Scale workloads from zero and back, without Knative.

    A Service opts in with the annotation activator.dev/enabled: "true". `activator run` queues its
    requests and reports them to this program. This program asks the API server for replicas when a
    request waits, and removes them when there has been no request for idle-seconds. With
    activator.dev/owner: keda or hpa it starts only the first replicas, and KEDA or an HPA decides
    the rest. With activator.dev/route: takeover it writes an EndpointSlice, so that the requests
    of a sleeping Service reach the activators.

    Several scalers may run. They choose a leader by a Lease, and only the leader writes. The
    leader sets the label activator.dev/leader: "true" on its pod. The Service of the scaler selects
    this pod.

    \b
    In a pod of manifests/scale, no setting is necessary. Outside of the cluster:
      SYSTEM_NAMESPACE=activator-system activator scale --kubeconfig ~/.kube/config

    \b
    Example: a Deployment that sleeps without requests
      kubectl annotate service hello activator.dev/enabled=true

    \b
    Look next, on the admin port:
      /api/v1/services     replicas of each Service, wanted and present; why one is not scaled
      /readyz              200 on the leader, 503 on the others
      /healthz             200 while the process works
      /metrics             metrics, as on the metrics port
    """
    from activator.scale.app import main as run_scaler

    return run_scaler(settings, wakes_all=wake_all)


# -- the commands that query a running activator

_QUERY_STATUSES: Final = """\b
Exit status:
    0  shown
    1  the response does not come from an activator's admin port
    2  a setting or an argument is wrong
    3  no response
"""
_JSON: Final = click.Option(
    ["--json", "as_json"], is_flag=True, help="Print the API's JSON unchanged."
)
_WATCH: Final = click.Option(
    ["--watch", "-w"],
    is_flag=True,
    help="Repeat once a second until Ctrl-C. A terminal is redrawn; other output gets a block "
    "after each change. Continues after a restart of the activator.",
)


@command(
    "status",
    _QUERY_STATUSES + "  130  ended by Ctrl-C\n",
    _JSON,
    click.Option(
        ["--namespace", "-n"], metavar="NAMESPACE", help="Show only revisions of a namespace."
    ),
    _WATCH,
)
def status(settings: Settings, as_json: bool, namespace: str | None, watch: bool) -> int:
    """Show pods and queues of a running activator.

    Queries the admin port, which listens on the activator's own machine only. For an activator in
    a cluster, forward the port with kubectl:

    \b
      kubectl port-forward -n knative-serving deployment/activator 8080    # with Knative
      kubectl port-forward -n activator-system deployment/activator 8080   # without it
      activator status

    \b
    Columns:
      pods             healthy (passed the activator's own probe) / ready (Kubernetes) / all
      in flight        requests in flight / capacity of the healthy pods (inf: no limit)
      queued           queued requests
      oldest waiter    how long the first queued request has waited
      state            serving, serving by ClusterIP (only the private Service is reachable),
                       asleep, starting or scaled-to-zero; or the reason why requests wait,
                       as in docs/reasons

    \b
    Look next:
      activator explain NAMESPACE/REVISION     one revision, with its pods

    \b
    For scripts:
      activator status --json | jq '.revisions[] | select(.queued > 0) | .name'
    """
    from activator.console.commands import Status

    return _query("status", settings, Status(namespace), as_json, watch)


@command(
    "explain",
    _QUERY_STATUSES + "    4  the activator knows no such revision\n  130  ended by Ctrl-C\n",
    click.Argument(["revision"], metavar="[NAMESPACE/]REVISION"),
    _JSON,
    click.Option(
        ["--namespace", "-n"], metavar="NAMESPACE", help="Namespace of a REVISION without one."
    ),
    click.Option(
        ["--kind"],
        type=click.Choice(
            (
                *("revision", "service", "HTTPScaledObject", "InterceptorRoute"),
                *("http-route", "fallback"),
            )
        ),
        help="Kind of the object, if several share a name; http-route is either route object.",
    ),
    _WATCH,
)
def explain(
    settings: Settings,
    revision: str,
    as_json: bool,
    namespace: str | None,
    kind: str | None,
    watch: bool,
) -> int:
    """Show why requests of an object wait. It also shows the decision about each pod.

    Queries the admin port, as `activator status` does. REVISION alone is in the namespace of
    --namespace, or in default. The names of plain Services and of objects of the KEDA HTTP add-on
    work as well.

    \b
    Output:
      reason       why requests wait, what to do, and the page with more about it
      capacity     the limit of requests in flight, as pods × limit, and this activator's share
      pods         readiness in Kubernetes (ready, not-ready); the result of the activator's probe,
                   with its status and age; use, wait or leave, and the rule for that
      cold starts  the last ones, with the seconds from the first request to each phase

    \b
    Example:
      activator explain default/hello-00001
      activator explain default/hello-00001 --watch

    \b
    For scripts:
      activator explain hello-00001 --json | jq -r '.pods[] | [.address, .decidedBy] | @tsv'
    """
    from activator.console.commands import Explain, key

    try:
        of, name = key(revision, namespace)
    except ValueError as error:
        click.echo(f"activator explain: {error}", err=True)
        return MISUSED
    question = Explain(of, name, kind, settings.scaler_admin_url)
    return _query("explain", settings, question, as_json, watch)


def _query(name: str, settings: Settings, question: Any, as_json: bool, watch: bool) -> int:
    """Show the result of a question (console.commands), once or until Ctrl-C."""
    from activator.console.client import NoResponse, NotKnown, Refused, UnexpectedResponse
    from activator.console.commands import run

    statuses = {NoResponse: NO_RESPONSE, NotKnown: NOT_KNOWN}
    statuses |= dict.fromkeys((Refused, UnexpectedResponse), FAILED)
    try:
        for warning in run(settings.admin_url, question, as_json, watch, sys.stdout):
            click.echo(warning, err=True)
    except tuple(statuses) as error:
        click.echo(f"activator {name}: {error}", err=True)
        return statuses[type(error)]
    return OK


for _each in (run, local, demo, scale, status, explain):
    cli.add_command(_each)


# -- the commands that need no running activator


@cli.command("version", epilog="\b\nExit status:\n    0  shown\n")
def version() -> int:
    """Print the version, the build and the Python version.

    A pure build runs the source. A compiled build runs extension modules made of the same source:
    see docs/how-to/build.md.

    \b
    Example:
      activator version    activator 0.2.0, compiled build, Python 3.13.15
    """
    from activator.build import description

    click.echo(f"activator {description()}")
    return OK


@cli.command("reason", epilog="\b\nExit status:\n    0  shown\n    2  unknown\n")
@click.argument("name", default=LIST, metavar="[NAME]")
def reason(name: str) -> int:
    """Print the page of a reason or of an alert, in Markdown. Without NAME, list all reasons.

    Responses have a reason in Activator-Reason, and `activator explain` shows it. Events of a
    Service have the reasons of the scaler. The admin port of a running activator has the same pages
    at /reasons/NAME.

    \b
    Examples:
      activator reason no-endpoints
      activator reason two-owners
      activator reason ActivatorColdStartsFail
    """
    if name not in pages():
        near = "".join(f"; did you mean {each}?" for each in get_close_matches(name, pages(), 1))
        raise click.UsageError(
            f"{name!r} is unknown{near}\n`activator reason` lists all reasons of the activator, "
            f"and `activator reason {SCALER}` those of the scaler."
        )
    click.echo(pages()[name].rstrip())
    return OK


@cli.command(
    "lab",
    epilog="""\b
Exit status:
    0  each scenario passed, or the list was shown
    1  a scenario failed, see its timeline
    2  there is no such scenario, or options contradict each other
  130  ended by Ctrl-C; no process is left
""",
)
@click.argument("words", nargs=-1, metavar="[SCENARIO]...")
@click.option("--list", "as_list", is_flag=True, help="Print numbers, names and titles; end.")
@click.option("--keep", is_flag=True, help="Leave one scenario running, with switches to turn.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end.")
def lab(words: Sequence[str], as_list: bool, keep: bool, as_json: bool) -> int:
    """Replay failures of real clusters on this machine.

    There are scenarios with Knative: failing probes, restarts of containers, stale Endpoints.
    Others need no Knative: cold start, rollout, and outages of the API server. The last ones show
    policies: sticky sessions, tenants, waiting pages, wake rules, admission, event streams.
    Each one starts an activator, pods and a toy kubelet as processes on loopback addresses, and
    causes the failure. It prints a timeline of Kubernetes, the activator and the client, and
    whether the result is correct. All scenarios take five minutes.

    \b
    Examples:
      activator lab                    run all scenarios
      activator lab 1 stale-endpoints  run two, by number and by name
      activator lab --list             list the scenarios
      activator lab 5 --keep           keep one running: turn switches and send requests

    \b
    For scripts:
      activator lab --json | jq -r '.scenarios[] | select(.passed | not) | .name'
    """
    from activator.lab.command import Misuse, run, show_list

    if as_list:
        show_list()
        return OK
    try:
        return run(words, keep=keep, as_json=as_json)
    except Misuse as error:
        raise click.UsageError(str(error)) from None


#: The activator's words for zap's levels; a number is more detailed than ``debug``.
_ZAP_LEVELS: Final = {"warn": "warning", "dpanic": "error", "panic": "error", "fatal": "error"}


def _without_zap(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words without arguments of zap, and these by name, as Go's flag package reads."""
    left, zap = list[str](), dict[str, str]()
    following = iter(words)
    for word in following:
        name, equals, value = word.partition("=")
        name = f"--{name.lstrip('-')}"
        if not word.startswith("-") or not name.startswith("--zap-"):
            left.append(word)
            continue
        if not equals and name != "--zap-devel":  # the only one that is a switch
            value = next(following, "")
        zap[name] = value
    level = zap.get("--zap-log-level", "").lower()
    zap["--zap-log-level"] = "debug" if level.isdigit() else _ZAP_LEVELS.get(level, level)
    return left, zap


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; the console script calls this function.

    In the Deployments of the KEDA HTTP add-on, the arguments are for its programs and name no
    command. It is ``run`` for its interceptor, and ``scale`` for its scaler.

    Arguments:
        args: the words after the program's name; by default the arguments of this process.

    Returns:
        The exit status; the caller must end the process with it.
    """
    words, zap = [*(sys.argv[1:] if args is None else args)], dict[str, str]()
    if (is_scaler := is_add_on_scaler(os.environ)) or is_add_on(os.environ):
        words, zap = _without_zap(words)
        words = words or ["scale" if is_scaler else "run"]
    try:
        ended = cli.main(words, prog_name="activator", standalone_mode=False, obj=zap)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    return int(ended or OK)
