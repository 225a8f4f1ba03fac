"""Defines the commands that query a running activator: status and explain."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from activator.cli.settings_command import FAILED, MISUSED, NO_RESPONSE, NOT_KNOWN, OK, command
from activator.settings.config import Settings

_QUERY_STATUSES: Final = """\b
Exit status:
    0  shown
    1  the response does not come from an activator's admin port
    2  a setting or an argument is wrong
    3  no response
"""
_WATCH: Final = click.Option(
    ["--watch", "-w"],
    is_flag=True,
    help="Repeat once a second until Ctrl-C. A terminal is redrawn; other output gets a block "
    "after each change. Continues after a restart of the activator.",
)


@command(
    "status",
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
                       starting or scaled-to-zero; or the reason why requests wait, as in
                       docs/reasons

    \b
    Look next:
      activator explain NAMESPACE/REVISION     one revision, with its pods

    \b
    For scripts:
      activator status --json | jq '.revisions[] | select(.queued > 0) | .name'
    """,
    _QUERY_STATUSES + "  130  ended by Ctrl-C\n",
    extra=[
        click.Option(["--json", "as_json"], is_flag=True, help="Print the API's JSON unchanged."),
        click.Option(
            ["--namespace", "-n"], metavar="NAMESPACE", help="Show only revisions of a namespace."
        ),
        _WATCH,
    ],
)
def status(settings: Settings, as_json: bool, namespace: str | None, watch: bool) -> int:
    """Show all revisions."""
    from activator.console.commands import Status

    return _query("status", settings, Status(namespace), as_json, watch)


@command(
    "explain",
    """Show why requests of one revision or Service wait. It also shows the decision about each pod.

    Queries the admin port, as `activator status` does. REVISION alone is in the namespace of
    --namespace, or in default. The name of a plain Service works as well.

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
    """,
    _QUERY_STATUSES + "    4  the activator knows no such revision\n  130  ended by Ctrl-C\n",
    extra=[
        click.Argument(["revision"], metavar="[NAMESPACE/]REVISION"),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the API's JSON unchanged."),
        click.Option(
            ["--namespace", "-n"], metavar="NAMESPACE", help="Namespace of a REVISION without one."
        ),
        click.Option(
            ["--kind"],
            type=click.Choice(["revision", "service"]),
            help="Kind of the object, if a Revision and a Service share a name.",
        ),
        _WATCH,
    ],
)
def explain(
    settings: Settings,
    revision: str,
    as_json: bool,
    namespace: str | None,
    kind: str | None,
    watch: bool,
) -> int:
    """Show one revision."""
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
    from activator.console.client import NoResponse, NotKnown, UnexpectedResponse
    from activator.console.commands import run

    statuses = {NoResponse: NO_RESPONSE, UnexpectedResponse: FAILED, NotKnown: NOT_KNOWN}
    try:
        for warning in run(settings.admin_url, question, as_json, watch, sys.stdout):
            click.echo(warning, err=True)
    except tuple(statuses) as error:
        click.echo(f"activator {name}: {error}", err=True)
        return statuses[type(error)]
    return OK
