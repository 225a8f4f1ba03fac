"""The command line: what each command does, its options, its help and its exit status.

Options are made from the table of settings (activator/settings/config.py). What a command needs is
imported when it runs, so ``--help`` answers at once. Must not know how anything is done.
Knative's counterpart: the flags of cmd/activator/main.go, which has one command and no help.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from activator.settings.config import ConfigError, Settings, load, settings_of
from activator.settings.setting import Setting

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2  # click's status for wrong options as well
NO_ANSWER: Final = 3
NOT_KNOWN: Final = 4
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it

_SERVER_STATUSES: Final = """\b
Exit status:
    0  ended by SIGTERM or Ctrl-C; requests were answered, or cut after --drain-timeout
    1  could not start or go on, as the last log line says; or ended by a second signal
    2  a setting is wrong or missing; all of them are named
  130  ended by Ctrl-C before it served
"""

_CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class SettingsCommand(click.Command):
    """A command whose options are settings, shown in help under the headings of the table."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one block of options for each section, then those that are no settings."""
        assert self.name is not None
        sections: dict[str, list[tuple[str, str]]] = {}
        rows = {row.name: row for row in settings_of(self.name)}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            row = rows.get(param.name or "")
            if record is not None:
                sections.setdefault(row.section if row else "Other", []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def _options(command: str) -> list[click.Parameter]:
    return [_option(row, command) for row in settings_of(command)]


def _option(row: Setting, command: str) -> click.Option:
    default = row.default_text(command)
    told = default if default == "required" else f"default: {default or 'none'}"
    return click.Option(
        [row.flag, row.name],
        type=click.STRING,  # the table reads it, so that flag and variable take the same
        metavar=row.kind.metavar,
        help=f"{row.meaning} [{row.variable}; {told}]",
    )


def _command(
    name: str, help_text: str, epilog: str, extra: Sequence[click.Parameter] = ()
) -> Callable[[Callable[..., int]], SettingsCommand]:
    """Decorate a function of (settings, **extra) that returns an exit status."""

    def decorate(function: Callable[..., int]) -> SettingsCommand:
        def callback(**given: Any) -> int:
            others = {str(option.name): given.pop(str(option.name)) for option in extra}
            settings = _settings(name, given)
            return MISUSED if settings is None else function(settings, **others)

        params = [*_options(name), *extra]
        made = SettingsCommand(name, None, callback, params, help_text, epilog)
        cli.add_command(made)
        return made

    return decorate


def _settings(command: str, flags: dict[str, str | None]) -> Settings | None:
    """The settings, or None after telling what is wrong with them."""
    try:
        return load(command, flags)
    except ConfigError as error:
        count = len(error.problems)
        what = "a setting is" if count == 1 else f"{count} settings are"
        click.echo(f"activator {command}: {what} wrong or missing:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
        click.echo(f"All settings: activator {command} --help", err=True)
        return None


@click.group(
    context_settings=_CONTEXT,
    epilog="Each command explains itself: activator COMMAND --help. Every setting with its reason: "
    "docs/reference.md.",
)
@click.version_option(package_name="activator")
def cli() -> None:
    """Hold requests to services that are scaled to zero until a pod can take them.

    The activator stands in the request path of services whose pods come and go. It keeps each
    request until a pod of its revision is found healthy and has room, then passes it on; or
    answers 504 when its time is up.

    \b
    First steps:
      activator demo                     see it work on this machine, nothing else needed
      activator local --manifests DIR    the same for objects that you write yourself
      activator run                      in a cluster, in place of Knative's activator
      activator status                   what a running one knows and what waits
      activator explain REVISION         why requests of one revision wait
      activator lab                      what it does when pods fail, played on this machine
      activator version                  which version and build this is
    """


def _serve(settings: Settings) -> int:
    from activator.app import main as serve

    return serve(settings)


@_command(
    "run",
    """Serve in a Kubernetes cluster.

    Takes the place of Knative's activator: same ports, same environment variables, same answers.
    Watches Revisions and Endpoints, probes pods, holds requests and tells the autoscaler.

    \b
    In the pod that Knative's Deployment starts, nothing need be set. From outside:
      POD_NAME=me POD_IP=10.0.0.9 SYSTEM_NAMESPACE=knative-serving \\
        activator run --kubeconfig ~/.kube/config

    \b
    Look next:
      activator status     after kubectl port-forward deployment/activator 8080
      /readyz, /metrics    on the admin port
    """,
    _SERVER_STATUSES,
)
def run(settings: Settings) -> int:
    """Serve until a signal."""
    return _serve(settings)


@_command(
    "local",
    """Serve without a cluster, from a folder of manifests.

    The folder holds Revision, Service, Endpoints and ConfigMap objects as Kubernetes writes them,
    in files that end in .yaml, .yml or .json. Files that are created, changed, renamed or deleted
    take effect at once; a broken file is reported and what it said before stays in force. Objects
    of other kinds, and folders inside the folder, are left alone; so are Endpoints without the
    labels of Knative's and a port named http or http2 (docs/reference.md; --log-level debug says).

    Sample pods take the same ports on other loopback addresses, so that --bind 127.0.0.1 leaves
    them room: 0.0.0.0, the default, takes the port on all of them.

    \b
    Example, with a revision default/hello in ./objects:
      activator local --manifests ./objects --bind 127.0.0.1
      curl -H 'Knative-Serving-Namespace: default' \\
           -H 'Knative-Serving-Revision: hello' http://127.0.0.1:8012/

    \b
    Look next:
      activator status     pods, requests in flight and waiting
      activator demo       writes such a folder and starts pods for it
    """,
    _SERVER_STATUSES,
)
def local(settings: Settings) -> int:
    """Serve until a signal."""
    return _serve(settings)


@_command(
    "demo",
    """Show on this machine how requests wait for pods that start.

    Starts local mode on loopback addresses with sample services that are scaled to zero. The
    first request to one of them is held while its pod starts, then answered; a pod without
    requests is stopped again. Prints what to try and where to look. Ends with Ctrl-C.

    \b
    Example:
      activator demo
      activator demo --http-port 0 --admin-port 0    any free ports; they are printed

    \b
    Look next, in another terminal:
      activator status     while a request waits
    """,
    _SERVER_STATUSES,
)
def demo(settings: Settings) -> int:
    """Serve until a signal."""
    return _serve(settings)


_ASKED_STATUSES: Final = """\b
Exit status:
    0  shown
    1  what answers is not an activator's admin side
    2  a setting or an argument is wrong
    3  nothing answers there
"""
_WATCH: Final = click.Option(
    ["--watch", "-w"],
    is_flag=True,
    help="Go on, once a second, until Ctrl-C: redrawn on a terminal, else a block whenever "
    "anything has changed. Survives a restart of the activator.",
)


@_command(
    "status",
    """Show what a running activator knows and what waits in it.

    Asks the admin side, which listens on the activator's own machine only. For one in a cluster
    let kubectl lead there:

    \b
      kubectl port-forward -n knative-serving deployment/activator 8080
      activator status

    \b
    Columns:
      pods             healthy (passed the activator's own probe) / ready (Kubernetes) / all
      in flight        requests at pods / what the healthy pods can take at a time (inf: no limit)
      queued           requests that wait
      oldest waiter    how long the first of them has waited
      state            serving, serving by ClusterIP (pods are out of reach, their Service is not),
                       starting or scaled-to-zero; or the reason why requests wait, as in
                       docs/reasons

    \b
    Look next:
      activator explain NAMESPACE/REVISION     one of them, with its pods

    \b
    For scripts:
      activator status --json | jq '.revisions[] | select(.queued > 0) | .name'
    """,
    _ASKED_STATUSES + "  130  ended by Ctrl-C\n",
    extra=[
        click.Option(["--json", "as_json"], is_flag=True, help="Print the API's JSON as it is."),
        click.Option(["--namespace", "-n"], metavar="NAMESPACE", help="Only its revisions."),
        _WATCH,
    ],
)
def status(settings: Settings, as_json: bool, namespace: str | None, watch: bool) -> int:
    """Show all revisions."""
    from activator.console.commands import Status

    return _ask("status", settings, Status(namespace), as_json, watch)


@_command(
    "explain",
    """Show one revision: why its requests wait, and what decides about each of its pods.

    Asks the admin side, as `activator status` does. REVISION alone is in the namespace that
    --namespace names, or in default.

    \b
    What is shown:
      reason       why requests wait, what to do, and the page that says more
      capacity     how many requests may be at pods, written out: pods × limit, our share of them
      pods         what Kubernetes says (ready, not-ready); what our own probe found, with the
                   status and how long ago; use, wait or leave, and the rule that decided
      cold starts  the last ones, and how many seconds after the first request each phase came

    \b
    Example:
      activator explain default/hello-00001
      activator explain default/hello-00001 --watch

    \b
    For scripts:
      activator explain hello-00001 --json | jq -r '.pods[] | [.address, .decidedBy] | @tsv'
    """,
    _ASKED_STATUSES + "    4  the activator knows no such revision\n  130  ended by Ctrl-C\n",
    extra=[
        click.Argument(["revision"], metavar="[NAMESPACE/]REVISION"),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the API's JSON as it is."),
        click.Option(["--namespace", "-n"], metavar="NAMESPACE", help="Of a REVISION alone."),
        _WATCH,
    ],
)
def explain(
    settings: Settings, revision: str, as_json: bool, namespace: str | None, watch: bool
) -> int:
    """Show one revision."""
    from activator.console.commands import Explain
    from activator.console.explain import key

    try:
        of, name = key(revision, namespace)
    except ValueError as error:
        click.echo(f"activator explain: {error}", err=True)
        return MISUSED
    return _ask("explain", settings, Explain(of, name), as_json, watch)


def _ask(command: str, settings: Settings, question: Any, as_json: bool, watch: bool) -> int:
    """Show what a question (admin.asking.Question) finds, once or until Ctrl-C."""
    from activator.console.client import NoAnswer, NotKnown
    from activator.console.commands import run
    from activator.console.responses import UnexpectedAnswer

    statuses = {NoAnswer: NO_ANSWER, UnexpectedAnswer: FAILED, NotKnown: NOT_KNOWN}
    try:
        for warning in run(settings.admin_url, question, as_json, watch, sys.stdout):
            click.echo(warning, err=True)
    except tuple(statuses) as error:
        click.echo(f"activator {command}: {error}", err=True)
        return statuses[type(error)]
    return OK


@cli.command("version", epilog="\b\nExit status:\n    0  shown\n")
def version() -> int:
    """Print the version, the build and the Python that runs it.

    A pure build runs the source. A compiled build runs extension modules of the same source: see
    docs/how-to/build.md.

    \b
    Example:
      activator version    activator 0.1.0, compiled build, Python 3.13.7
    """
    from activator.build import description

    click.echo(f"activator {description()}")
    return OK


@cli.command(
    "lab",
    epilog="""\b
Exit status:
    0  each scenario passed, or the list was shown
    1  one did not pass, as its timeline says
    2  there is no such scenario, or options contradict each other
  130  ended by Ctrl-C; no process is left
""",
)
@click.argument("words", nargs=-1, metavar="[SCENARIO]...")
@click.option("--list", "as_list", is_flag=True, help="Print numbers, names and titles; end.")
@click.option("--keep", is_flag=True, help="Leave one scenario running, with switches to turn.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end.")
def lab(words: Sequence[str], as_list: bool, keep: bool, as_json: bool) -> int:
    """Replay on this machine what was seen on real clusters, and say what happens.

    Twelve scenarios: probes that fail, containers that are restarted, Endpoints that are stale.
    Each starts an activator, pods and a toy kubelet as processes on loopback addresses, does what
    happened there, and prints a timeline: what was done, what Kubernetes said, what the activator
    did, what the client saw, and whether that is what must happen. All of them take a minute.

    \b
    Examples:
      activator lab                    all of them
      activator lab 1 stale-endpoints  two, by number and by name
      activator lab --list             what there is
      activator lab 5 --keep           leave it running: turn switches and send requests

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


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; what the console script calls.

    Arguments:
        args: the words after the program's name; those of this process by default.

    Returns:
        The exit status; the caller must end the process with it.
    """
    try:
        ended = cli.main(args, prog_name="activator", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    return int(ended or OK)
