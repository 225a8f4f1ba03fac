"""Defines the commands that need no running activator: version, reason and lab."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import click

from activator.cli.settings_command import OK, Command
from activator.pages import LIST, SCALER, pages


@click.command("version", cls=Command, epilog="\b\nExit status:\n    0  shown\n")
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


@click.command("reason", cls=Command, epilog="\b\nExit status:\n    0  shown\n    2  unknown\n")
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


@click.command(
    "lab",
    cls=Command,
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
