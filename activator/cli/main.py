"""Runs one command, and returns its exit status.

A command imports its modules when it runs, so ``--help`` is fast. Knative's counterpart: the flags
of cmd/activator/main.go, which has one command and no help.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from activator.cli.queries import explain, status
from activator.cli.serving import demo, local, run, scale
from activator.cli.settings_command import INTERRUPTED, OK, Group
from activator.cli.tools import lab, reason, version

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
      activator explain REVISION         show why requests of one revision wait
      activator reason NAME              print the page of a reason or of an alert
      activator lab                      replay failures of pods, and policies, on this machine
      activator version                  print version and build

    Annotations of a Revision or a Service choose its policies: a waiting page, wake rules,
    priorities, sticky sessions. docs/how-to/operate.md has a page for each.
    """


for _each in (run, local, demo, scale, status, explain, reason, version, lab):
    cli.add_command(_each)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; the console script calls this function.

    Arguments:
        args: the words after the program's name; by default the arguments of this process.

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
