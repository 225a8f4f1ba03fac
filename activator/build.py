"""Lists the modules of a compiled build, and finds whether this process runs such a build.

With ``ACTIVATOR_COMPILE=1 pip install .``, mypyc compiles the modules of ``COMPILED`` to extension
modules. The source stays plain Python. ``backend/`` reads this table to build, and tests read it to
check the code. The module knows no other module of the project.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec
from platform import python_version
from typing import Final

from activator import __version__


class Build(Enum):
    """The two builds of the project."""

    PURE = "pure"
    COMPILED = "compiled"


#: The modules of a compiled build. Their classes are native: no interpreted class inherits them.
COMPILED: Final[tuple[str, ...]] = (
    "throttler.adaptive",
    "throttler.backends",
    "throttler.balancing",
    "throttler.queue",
    "throttler.capacity",
    "throttler.ticket",
    "throttler.model",
    "throttler.forecast",
    "throttler.errors",
    "throttler.ranked_queue",
    "throttler.lb_policy",
    "throttler.pod",
    "throttler.slots",
    "throttler.throttler",
    "throttler.pod_rule",
    "throttler.request_policies",
    "throttler.reason",
    "throttler.rendezvous",
    "throttler.revision",
    "throttler.wait_reason",
    "throttler.zones",
    "activator.records.entries",
    "activator.records.counters",
    "activator.driver",
    "activator.process.timers",
    "activator.probing.prober",
    "activator.knative.words",
    "activator.knative.queue_proxy",
    "activator.autoscaler.concurrency",
    "activator.proxy.client.http2_ends",
    "activator.proxy.client.connection",
    "activator.proxy.client.proxy",
    "activator.proxy.client.heads_in_progress",
    "activator.proxy.client.http1",
    "activator.proxy.client.http2",
    "activator.proxy.exchange.admission_port",
    "activator.proxy.exchange.sides",
    "activator.proxy.exchange.heartbeat",
    "activator.proxy.exchange.interceptor",
    "activator.proxy.exchange.end",
    "activator.proxy.exchange.exchange",
    "activator.proxy.exchange.limits",
    "activator.proxy.exchange.model_list",
    "activator.proxy.exchange.observers",
    "activator.proxy.exchange.wait",
    "activator.proxy.exchange.permission",
    "activator.proxy.exchange.placement",
    "activator.proxy.http2.section",
    "activator.proxy.exchange.retry",
    "activator.proxy.exchange.services",
    "activator.proxy.exchange.translation",
    "activator.proxy.exchange.tunnel",
    "activator.proxy.http2.connection",
    "activator.proxy.http2.frames",
    "activator.proxy.http2.fields",
    "activator.proxy.http2.frame_reader",
    "activator.proxy.http2.hpack",
    "activator.proxy.message.error_forms",
    "activator.proxy.message.grammar",
    "activator.proxy.message.response",
    "activator.proxy.message.fields",
    "activator.proxy.message.grpc",
    "activator.proxy.message.own_responses",
    "activator.proxy.message.request",
    "activator.proxy.pods.http1",
    "activator.proxy.pods.http2",
    "activator.proxy.pods.pool",
    "activator.proxy.pods.probes",
    "activator.proxy.tcp.clients",
    "activator.proxy.tcp.connection",
    "activator.proxy.tcp.demand",
    "activator.proxy.tcp.proxy_header",
    "activator.proxy.tcp.side",
    "activator.proxy.transport.peer_socket",
    "activator.proxy.transport.files",
    "activator.proxy.transport.poller",
    "activator.proxy.transport.splice",
)


@cache
def running() -> Build:
    """Return the build that this process runs.

    A build is compiled if all modules of the table are compiled.
    """
    return Build.COMPILED if all(map(_is_compiled, COMPILED)) else Build.PURE


def description() -> str:
    """Return the version, the build and the Python of this process, for people."""
    return f"{__version__}, {running().value} build, Python {python_version()}"


def _is_compiled(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and isinstance(spec.loader, ExtensionFileLoader)
