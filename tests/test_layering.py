"""The arrows of docs/architecture.md, checked in every file: which part may import which other.

The tree, that page and this test use the same words. Change all three together.
``python -m tests.test_layering [FOLDER]…`` prints what each module does.
``python -m tests.test_layering --write`` writes the page's generated tables.
"""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.guards import expect_none
from throttler.pod import TRANSITIONS, PodEvent, PodState

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("throttler", "activator")
PAGE: Final = ROOT / "docs" / "architecture.md"

#: Parts that any other part of ``activator`` may use.
BASE: Final = frozenset(
    f"activator.{name}"
    for name in (
        *("build", "keda", "knative", "kpa", "objects", "pages", "plain", "process", "records"),
        "settings",
        "tls",
    )
)
SIBLINGS: Final = frozenset(
    f"activator.{name}"
    for name in (
        *("admin", "authorization", "autoscaler", "discovery", "probing", "proxy", "telemetry"),
    )
)
BELOW_SIBLINGS: Final = frozenset({"throttler", "activator", "activator.driver"}) | BASE

#: The parts that each part may import in addition to itself. A part is a package, or a module of
#: ``activator/``. The part ``activator`` is the package's own file, with the version.
ARROWS: Final[dict[str, frozenset[str]]] = {
    "throttler": frozenset(),
    "activator": frozenset(),
    "activator.build": frozenset({"activator"}),
    "activator.process": frozenset(),
    "activator.objects": frozenset({"throttler"}),
    "activator.settings": frozenset(),
    "activator.records": frozenset({"throttler", "activator.plain"}),
    "activator.kpa": frozenset(),
    "activator.pages": frozenset(),
    "activator.plain": frozenset(
        {"throttler", "activator.knative", "activator.kpa", "activator.objects"}
    ),
    "activator.keda": frozenset(
        {"throttler", "activator.objects", "activator.plain", "activator.settings"}
    ),
    "activator.tls": frozenset({"activator.knative", "activator.settings"}),
    "activator.knative": frozenset(
        {"throttler", "activator.objects", "activator.process", "activator.settings"}
    ),
    "activator.driver": frozenset({"throttler", "activator.records"}),
    **dict.fromkeys(SIBLINGS, BELOW_SIBLINGS),
    # It reads responses of servers by the parser of pods' responses.
    "activator.authorization": BELOW_SIBLINGS | {"activator.proxy"},
    "activator.scale": BASE
    | {"throttler", "activator", "activator.admin", "activator.autoscaler", "activator.discovery"}
    | {"activator.telemetry"},
    "activator.console": frozenset({"throttler", "activator.process"}),
    "activator.lab": frozenset(),
    "activator.runtime": SIBLINGS | BELOW_SIBLINGS,
    "activator.servers": SIBLINGS | BELOW_SIBLINGS | {"activator.runtime"},
    "activator.app": SIBLINGS
    | BELOW_SIBLINGS
    | {"activator.runtime", "activator.servers", "activator.lab"},
    "activator.cli": BASE
    | {"activator", "activator.app", "activator.console", "activator.lab", "activator.scale"},
    "activator.__main__": frozenset({"activator.cli", "activator.process"}),
}

#: The rooms of the byte path that each room of it may import at run time, except itself. Types
#: may be imported in both directions: mypyc compiles all of them as one group.
ROOMS: Final[dict[str, frozenset[str]]] = {
    "": frozenset(),
    "message": frozenset(),
    "transport": frozenset(),
    "http2": frozenset({"message", "transport"}),
    "exchange": frozenset({"http2", "message", "transport"}),
    "pods": frozenset({"exchange", "http2", "message", "transport"}),
    "client": frozenset({"exchange", "http2", "message", "transport"}),
    "tcp": frozenset({"client", "exchange", "message", "pods", "transport"}),
}

#: The rooms that all parts of the scaler may import.
BELOW_PARTS: Final = frozenset(
    {"cluster", "decisions", "reasons", "reports", "settings", "wakers", "workloads"}
)
#: The rooms of the scaler that each room of it may import at run time, except itself. A module of
#: ``activator/scale/`` is a room of its own.
SCALER_ROOMS: Final[dict[str, frozenset[str]]] = {
    "": frozenset(),
    "families": frozenset(),
    "reasons": frozenset(),
    "cluster": frozenset(),
    "reports": frozenset(),
    "http_server": frozenset(),
    "election": frozenset({"cluster"}),
    "settings": frozenset({"reports"}),
    "wakers": frozenset({"reasons"}),
    "workloads": frozenset({"cluster", "reasons", "reports", "wakers"}),
    "decisions": frozenset({"cluster", "families", "reasons", "reports", "wakers", "workloads"}),
    "board": frozenset({"decisions", "part", "reports"}),
    "admin": BELOW_PARTS | {"election", "families"},
    "part": BELOW_PARTS,
    "takeover": BELOW_PARTS | {"part"},
    "events": BELOW_PARTS | {"part"},
    "keda": BELOW_PARTS | {"http_server", "part", "board"},
    "external_metrics": BELOW_PARTS | {"http_server", "part", "board"},
    "owners": BELOW_PARTS | {"keda", "part"},
    "asleep": BELOW_PARTS | {"part"},
    "startup": BELOW_PARTS | {"part"},
    "scaler": BELOW_PARTS
    | {"admin", "election", "events", "external_metrics", "keda", "http_server", "owners", "part"}
    | {"asleep", "startup", "takeover"},
    "wake_all": BELOW_PARTS | {"asleep", "owners", "part", "scaler", "takeover"},
    "app": frozenset({"http_server", "scaler", "settings", "wake_all"}),
}

#: Packages outside the standard library: the only files that may import each, and the reason.
QUARANTINE: Final[dict[str, tuple[frozenset[str], str]]] = {
    "aiohttp": (
        frozenset(
            {
                "activator/discovery/api_server.py",
                "activator/scale/keda/polling.py",
                "activator/scale/wakers/http.py",
            }
        ),
        "kubernetes_asyncio needs it, and the scaler sends calls by it; expensive to import",
    ),
    "anyio": (
        frozenset({"activator/admin/application.py"}),
        "loads its backend at start, not during the first request",
    ),
    "asyncinotify": (
        frozenset({"activator/discovery/manifests.py"}),
        "only Linux has inotify; on other systems the activator polls the folder",
    ),
    "certifi": (
        frozenset({"activator/authorization/authorizer.py"}),
        "the public authorities, imported for the first authorization server with TLS",
    ),
    "click": (
        frozenset({"activator/cli/main.py"}),
        "only this package reads the command line",
    ),
    "google": (
        frozenset(
            {
                "activator/autoscaler/stat_pb2.py",
                "activator/autoscaler/wire.py",
                "activator/scale/keda/externalscaler_pb2.py",
                "activator/scale/keda/server.py",
            }
        ),
        "protobuf; only a process with an autoscaler, and the scaler, need it",
    ),
    "grpc": (
        frozenset({"activator/scale/keda/server.py"}),
        "KEDA calls an external scaler over gRPC; only the scaler serves it",
    ),
    "httptools": (
        frozenset({"activator/proxy/message/grammar.py"}),
        "the only place where llhttp checks whether a head is well-formed",
    ),
    "httpx": (
        frozenset({"activator/console/client.py"}),
        "only for the command line: its pool becomes slow with many pods",
    ),
    "kubernetes_asyncio": (
        frozenset({"activator/discovery/kubernetes_package.py"}),
        "imported in part: all of it needs 35 MiB and half a second; untyped",
    ),
    "librt": (
        frozenset({"activator/proxy/http2/hpack.py"}),
        "bytes that compiled code reads and appends without a call",
    ),
    "msgspec": (
        frozenset(
            {
                "activator/admin/http_application.py",
                "activator/admin/openapi.py",
                "activator/discovery/kubernetes.py",
                "activator/discovery/wire.py",
                "activator/keda/metrics.py",
            }
        ),
        "JSON, several times as fast as the standard library; schemas of types",
    ),
    "mypy_extensions": (
        frozenset({"activator/proxy/http2/hpack.py"}),
        "native integers in compiled code",
    ),
    "opentelemetry": (
        frozenset({"activator/telemetry/otlp.py"}),
        "a thread imports it, and only while it sends telemetry",
    ),
    "prometheus_client": (
        frozenset({"activator/telemetry/process.py"}),
        "only for metrics of the process: it makes an object per line",
    ),
    "rich": (
        frozenset({"activator/console/screen.py", "activator/lab/command.py"}),
        "tables and colours, imported only to print to a terminal",
    ),
    "starlette": (
        frozenset(
            f"activator/admin/{name}.py"
            for name in (
                "application",
                "assets",
                "event_feed",
                "http_application",
                "profiling",
            )
        )
        | {
            "activator/scale/admin/application.py",
            "activator/scale/external_metrics.py",
        },
        "only the admin side is an ASGI application; traffic never passes it",
    ),
    "aiohappyeyeballs": (
        frozenset({"activator/process/sockets.py"}),
        "a dial whose look-up can be cancelled, through all addresses of a name",
    ),
    "tenacity": (
        frozenset({"activator/discovery/kubernetes.py"}),
        "retries of a start or a dial, only in the files that need them",
    ),
    "uvicorn": (
        frozenset(
            {
                "activator/servers.py",
                "activator/process/quiet_server.py",
                "activator/proxy/client/listener.py",
                "activator/scale/http_server.py",
            }
        ),
        "it manages sockets and connections; traffic does not use its HTTP",
    ),
    "uvloop": (
        frozenset({"activator/app.py", "activator/lab/pod.py", "activator/scale/app.py"}),
        "the start of a process chooses the loop",
    ),
    "websockets": (
        frozenset(
            {
                "activator/autoscaler/link.py",
                "activator/lab/application.py",
                "activator/scale/reports/stat_server.py",
            }
        ),
        "both ends of the stat stream, and the sample application's echo",
    ),
    "yaml": (
        frozenset({"activator/discovery/documents.py"}),
        "only one file parses untrusted YAML",
    ),
}

#: Knative's words in string constants: labels and API groups, control fields, user agents of
#: probes, metric names.
KNATIVE: Final = re.compile(
    r"knative\.dev|\bk-(?:kubelet|network|original|passthrough|proxy)-"
    r"|knative-(?:activator|autoscaling|ingress)-|knative-serving-(?:namespace|revision)"
    r"|queue-proxy|kube-probe|-private\b|routing-serving-certs|\bkn_",
    re.IGNORECASE,
)

#: Files outside ``activator/knative/`` with Knative's words, and why. May only shrink.
KNATIVE_ELSEWHERE: Final[dict[str, str]] = {
    "activator/process/logs.py": "keys of a log line; ``process`` imports no other part",
    "activator/settings/config.py": "help for people",
    "activator/telemetry/collection.py": "labels of metrics, for Knative's dashboards",
    "activator/telemetry/families.py": "the table of metrics, for Knative's dashboards",
    "activator/telemetry/otlp.py": "the prefix of those metrics",
    "throttler/reason.py": "commands of kubectl in advice",
    "throttler/pod_rule.py": "sentences in explanations",
}

#: Imports that would give the throttler a clock, random numbers or I/O.
IMPURE: Final = frozenset(
    {
        *("asyncio", "concurrent", "datetime", "http", "io", "logging", "os", "pathlib"),
        *("random", "secrets", "selectors", "signal", "socket", "subprocess", "threading", "time"),
    }
)

#: Private names of other objects that a file of tests touches: how many. May only shrink.
PRIVATE: Final[dict[str, int]] = {
    "tests/activator/admin/test_event_stream.py": 1,
    "tests/activator/admin/test_profiling.py": 1,
    "tests/activator/autoscaler/test_link_backoff.py": 1,
    "tests/activator/discovery/test_api_server.py": 1,
    "tests/activator/discovery/test_inventory.py": 4,
    "tests/activator/discovery/test_manifests.py": 2,
    "tests/activator/plain/test_matches.py": 1,
    "tests/activator/records/test_change_log.py": 1,
    "tests/activator/scale/test_owners.py": 2,
    "tests/activator/test_build.py": 1,
    "tests/conftest.py": 1,
}

#: Folders whose tests are elsewhere, and where.
TESTED_ELSEWHERE: Final[dict[str, str]] = {
    "activator/pages": "each reader tests its page: see activator/admin, activator/proxy",
    "activator/lab/scenarios": "tests/e2e/test_lab.py runs them",
}

#: Calls of sleep() in tests, except sleep(0): how many, and why. May only shrink.
SLEEPS: Final[dict[str, tuple[int, str]]] = {
    "tests/activator/autoscaler/test_reporter.py": (8, "virtual time: whole seconds of a report"),
    "tests/activator/discovery/test_manifests.py": (1, "a thread; the kernel decides when"),
    "tests/activator/discovery/test_reflector.py": (
        10,
        "virtual time; a failed connection causes no event",
    ),
    "tests/activator/discovery/test_waiting_requests.py": (4, "virtual time: minutes of an outage"),
    "tests/cluster/control_plane.py": (1, "between polls of a program that starts; no loop runs"),
    "tests/cluster/node.py": (8, "the node's program: periods of probes, pauses of kubelet"),
}

#: Tests that may be skipped: how many marks and calls, and why. May only shrink.
SKIPS: Final[dict[str, tuple[int, str]]] = {
    "tests/activator/discovery/test_listener.py": (1, "inotify is Linux's"),
    "tests/activator/proxy/pods/test_http2.py": (1, "for the source, which make test runs"),
    "tests/activator/proxy/test_states.py": (1, "for the source, which make test runs"),
    "tests/activator/proxy/transport/test_splice.py": (1, "only Linux has splice"),
    "tests/benchmarks/test_trace_calls.py": (1, "for the source, which make test runs"),
    "tests/cluster/keda.py": (1, "KEDA's programs are optional"),
    "tests/compiled/test_installed.py": (1, "for the compiled build: make test-compiled"),
    "tests/e2e/test_lab.py": (1, "it reads Linux's /proc"),
    "tests/fuzz/test_fuzz.py": (2, "one test for the compiled build, one for the source"),
    "tests/manifests/test_kubectl.py": (1, "it tests the skip"),
    "tests/programs.py": (1, "a missing program; an error in CI"),
    "tests/test_bytecode.py": (1, "PYTHONDONTWRITEBYTECODE is set"),
    "tests/test_programs.py": (2, "it tests the skip"),
    "tests/throttler/test_balancing.py": (1, "for the source, which make test runs"),
    "tests/throttler/test_rendezvous.py": (1, "for the source, which make test runs"),
}
#: The names that skip a test, or let it fail.
SKIPPING: Final = frozenset({"skip", "skipif", "xfail", "importorskip"})


class Import(NamedTuple):
    """One name that a file imports.

    Attributes:
        typing: whether only type checkers see the import.
        lazy: whether the import is inside a function.
    """

    target: str
    line: int
    typing: bool
    lazy: bool


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    return relative(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES: Final = frozenset(map(module_of, sources()))


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax of a file; the tests share it."""
    return ast.parse(path.read_text(), str(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax; the walk takes longer than the tests' own work."""
    return tuple(ast.walk(tree_of(path)))


@pytest.fixture(scope="module", autouse=True)
def keep_trees() -> Iterator[None]:
    """Keep the trees for these tests. A garbage collection would visit all of their nodes."""
    gc.disable()
    yield
    nodes_of.cache_clear()
    tree_of.cache_clear()
    gc.enable()


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """Return all imports of a file; ``from a import b`` imports ``a.b`` where that is a module."""
    return tuple(_imports(tree_of(path), typing=False, lazy=False))


def _imports(node: ast.AST, *, typing: bool, lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for name in child.names:
                yield Import(name.name, child.lineno, typing, lazy)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: write an absolute import"
            for name in child.names:
                whole = f"{child.module}.{name.name}"
                target = whole if whole in MODULES else str(child.module)
                yield Import(target, child.lineno, typing, lazy)
        elif not isinstance(child, ast.expr):  # an expression holds no statement
            guarded = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(child, typing=typing or guarded, lazy=lazy or inside)


def part_of(module: str) -> str:
    """Return the row of ARROWS of a module of this project."""
    first, _, rest = module.partition(".")
    return first if first == "throttler" or not rest else f"{first}.{rest.partition('.')[0]}"


def ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def room_of(module: str, package: str) -> str:
    """Return the room of a package's module; empty for the package's own file."""
    return module.removeprefix(package).removeprefix(".").partition(".")[0]


# Imports between parts.


def test_every_part_has_its_row_of_arrows() -> None:
    assert {part_of(module) for module in MODULES} == set(ARROWS)


def test_arrows_go_one_way() -> None:
    TopologicalSorter(ARROWS).prepare()  # raises CycleError


def test_imports_follow_the_arrows() -> None:
    expect_none(
        f"{relative(path)}:{found.line}: {part} must not import {found.target}"
        for path in sources()
        for part in [part_of(module_of(path))]
        for found in imports_of(path)
        if ours(found.target) and part_of(found.target) not in ARROWS[part] | {part}
        if not _is_through_runtime(path, found)
    )


def _is_through_runtime(path: Path, found: Import) -> bool:
    """Return whether a sibling, or a part that it calls, gets types from ``runtime``."""
    return (
        found.typing
        and found.target == "activator.runtime"
        and part_of(module_of(path)) in SIBLINGS | {"activator.driver", "activator.records"}
    )


def test_rooms_of_the_byte_path_import_each_other_in_one_direction() -> None:
    expect_none(_wrong_rooms("activator.proxy", ROOMS))


def test_rooms_of_the_scaler_import_each_other_in_one_direction() -> None:
    TopologicalSorter(SCALER_ROOMS).prepare()  # raises CycleError
    expect_none(_wrong_rooms("activator.scale", SCALER_ROOMS))


def _wrong_rooms(package: str, rooms: dict[str, frozenset[str]]) -> Iterator[str]:
    for path in sorted((ROOT / package.replace(".", "/")).rglob("*.py")):
        room = room_of(module_of(path), package)
        for found in imports_of(path):
            inside = found.target.startswith(f"{package}.")
            if found.typing or not inside:
                continue
            if room_of(found.target, package) not in rooms[room] | {room}:
                yield f"{relative(path)}:{found.line}: {room} must not import {found.target}"


def test_modules_import_each_other_in_one_direction_at_run_time() -> None:
    """Only imports for type checkers may be circular, and only inside a package."""
    graph = {
        module_of(path): {
            found.target for found in imports_of(path) if ours(found.target) and not found.typing
        }
        - {module_of(path)}
        for path in sources()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_modules_of_the_throttler_import_each_other_in_one_direction_for_types_too() -> None:
    graph = {
        module_of(path): {
            found.target for found in imports_of(path) if found.target.startswith("throttler")
        }
        - {module_of(path)}
        for path in sorted((ROOT / "throttler").glob("*.py"))
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


#: The maximum number of attributes of an object.
MOST_ATTRIBUTES: Final = 20
#: Each of these holds the whole life of a connection, so it may have more.
CONNECTIONS: Final = frozenset(
    {"Http1ClientConnection", "Http1PodConnection", "Http2ClientConnection", "Http2PodConnection"}
)
MOST_ATTRIBUTES_OF_A_CONNECTION: Final = 28
#: Tables with one row for each setting.
SETTINGS: Final = frozenset({"Settings", "ScaleSettings"})


def test_no_object_has_many_attributes() -> None:
    expect_none(
        f"{relative(path)}:{node.lineno}: {node.name} has {size} of {most} attributes"
        for path in sources()
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef) and node.name not in SETTINGS
        for size in [len(_attributes_of(node))]
        for most in [
            MOST_ATTRIBUTES_OF_A_CONNECTION if node.name in CONNECTIONS else MOST_ATTRIBUTES
        ]
        if size > most
    )


def _attributes_of(node: ast.ClassDef) -> set[str]:
    """Return the fields of a class, and the attributes that its methods set."""
    fields = {
        ast.unparse(each.target)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and not ast.unparse(each.annotation).startswith("ClassV")
    }
    stored = {
        each.attr
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
        for each in ast.walk(method)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }
    return fields | stored


def test_imports_for_types_alone_stay_inside_their_package() -> None:
    """``app`` and ``runtime`` are exempt: they use all packages and import costly ones late.

    A sibling, the driver and the records get the types of siblings through ``runtime``.
    """
    expect_none(
        f"{relative(path)}:{found.line}: imports {found.target} of another package for types alone"
        for path in sources()
        for found in imports_of(path)
        if found.typing
        and ours(found.target)
        and part_of(found.target) != part_of(module_of(path))
        and module_of(path) not in ("activator.app", "activator.runtime")
        and not _is_through_runtime(path, found)
    )


def test_lab_is_imported_in_use_alone() -> None:
    expect_none(
        f"{relative(path)}:{found.line}: only functions of app and cli may import the lab"
        for path in sources()
        for found in imports_of(path)
        if part_of(found.target) == "activator.lab"
        and part_of(module_of(path)) != "activator.lab"
        and not found.typing
        if not found.lazy or part_of(module_of(path)) not in ("activator.app", "activator.cli")
    )


# Files with Knative's words.


def knows_knative(path: Path) -> bool:
    """Return whether a string constant of a file holds Knative's words; ignore docstrings."""
    prose = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
    texts = (
        node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        for node in nodes_of(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str | bytes)
        and id(node) not in prose
    )
    return any(map(KNATIVE.search, texts))


def test_knatives_words_are_in_one_room() -> None:
    """The lab plays Knative's other parts, and imports no other part of ``activator``."""
    elsewhere = {
        relative(path)
        for path in sources()
        if part_of(module_of(path)) not in ("activator.knative", "activator.lab")
        and knows_knative(path)
    }
    assert elsewhere == set(KNATIVE_ELSEWHERE)


# Imports that the throttler must not have.


#: Folders that only decide: each call takes the time as an argument, and waits for nothing.
PURE: Final = ("throttler", "activator/kpa")


def test_parts_that_decide_are_pure() -> None:
    expect_none(
        finding
        for folder in PURE
        for path in sorted((ROOT / folder).glob("*.py"))
        for finding in _impurities(path, folder)
    )


def _impurities(path: Path, folder: str) -> Iterator[str]:
    pure = sys.stdlib_module_names - IMPURE
    own = folder.replace("/", ".")
    for found in imports_of(path):
        inside = found.target == own or found.target.startswith(f"{own}.")
        if not inside and found.target.partition(".")[0] not in pure:
            yield f"{relative(path)}:{found.line}: {folder} must not import {found.target}"
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    for node in nodes_of(path):
        if isinstance(node, waiting):
            yield f"{relative(path)}:{node.lineno}: {folder} must not wait"


# Packages of other projects.


def foreign() -> dict[str, frozenset[str]]:
    """Return the files that import each package of other projects, Python's own excepted."""
    found: dict[str, set[str]] = {}
    for path in sources():
        for each in imports_of(path):
            name = each.target.partition(".")[0]
            if not each.typing and name not in sys.stdlib_module_names and not ours(name):
                found.setdefault(name, set()).add(relative(path))
    return {name: frozenset(files) for name, files in found.items()}


def test_packages_of_others_are_imported_where_the_table_says_and_nowhere_else() -> None:
    assert foreign() == {name: files for name, (files, _) in QUARANTINE.items()}


LOCAL_MODE = """
import asyncio, sys
import activator.servers  # the listeners, too
from activator.runtime import Runtime
from activator.settings.config import load

async def main():
    async with Runtime(load("local", {"manifests": sys.argv[1]}, {})).lifespan():
        pass

asyncio.run(main())
print(*sys.modules)
"""


def test_local_mode_pays_for_nothing_that_a_cluster_or_a_collector_needs(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOCAL_MODE, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = {name.partition(".")[0] for name in ended.stdout.split()}
    assert "uvicorn" in loaded  # it has started
    assert not loaded & {"kubernetes_asyncio", "aiohttp", "google", "websockets", "httpx"}
    assert not loaded & {"opentelemetry", "grpc", "requests"}  # as long as nothing is sent
    assert "activator.lab" not in ended.stdout.split()
    # It leaves no module of kubernetes_asyncio in the table of modules.
    assert "activator.discovery.kubernetes_package" not in ended.stdout.split()


# Tests.


def test_each_room_has_its_tests() -> None:
    """A folder of the source has a folder of tests with the same name, or a file of them."""
    expect_none(
        f"{relative(folder)} has no tests: write tests/{relative(folder)}/"
        for folder in sorted({path.parent for path in sources()})
        if relative(folder) not in TESTED_ELSEWHERE
        if not any(
            (ROOT / "tests" / where).exists()
            for where in (relative(folder), f"{relative(folder.parent)}/test_{folder.name}.py")
        )
    )


def test_no_test_touches_a_private_name() -> None:
    """Tests use the public face of a room, so that its inside can change."""
    expect_none(
        f"{name}: {count} private names of other objects, allowed {PRIVATE.get(name, 0)}"
        for name, count in _per_test_file(PRIVATE_NAME, _is_private).items()
        if count > PRIVATE.get(name, 0)
    )


#: A private name of another object, or in the names of an import. Not all of them are private.
PRIVATE_NAME: Final = r"(?m)(?<!\bself)\._[a-z]|^ *from [^\n]+ import [^)]*?\b_[a-z]"


def _is_private(node: ast.AST) -> bool:
    """Return whether a test reads ``x._name`` of another object, or imports such a name."""
    if isinstance(node, ast.ImportFrom):
        return any(re.match("_[a-z]", name.name) for name in node.names)
    return (
        isinstance(node, ast.Attribute)
        and re.match("_[a-z]", node.attr) is not None
        and node.attr not in ("_replace", "_asdict")  # of a named tuple, where they are public
        and ast.unparse(node.value).partition(".")[0] not in ("self", "cls", "super()")
    )


def test_no_test_sleeps() -> None:
    """Tests use virtual time or wait for an event; a sleep guesses the duration."""
    assert _per_test_file("sleep", _is_sleep) == {
        name: count for name, (count, _) in SLEEPS.items()
    }


def test_each_skipped_test_has_its_reason() -> None:
    """A skipped test is not noticed: each has a build or a platform that runs it."""
    assert _per_test_file("|".join(SKIPPING), _is_skip) == {
        name: count for name, (count, _) in SKIPS.items()
    }


def _per_test_file(words: str, matches: Callable[[ast.AST], bool]) -> dict[str, int]:
    """Return how many nodes of the syntax match, for each file of tests that has any.

    Arguments:
        words: a pattern; files without it are not parsed.
    """
    counts = {
        relative(path): sum(map(matches, nodes_of(path)))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if re.search(words, path.read_text())
    }
    return {name: count for name, count in counts.items() if count}


def _is_skip(node: ast.AST) -> bool:
    """Return whether pytest would skip a test: ``pytest.skip``, ``pytest.mark.skipif``, …"""
    return (
        isinstance(node, ast.Attribute)
        and node.attr in SKIPPING
        and ast.unparse(node.value) in ("pytest", "pytest.mark")
    )


def _is_sleep(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    zero = len(node.args) == 1 and ast.unparse(node.args[0]) == "0"
    return name == "sleep" and not zero


# The page.


def packages() -> dict[str, list[Path]]:
    """Return the modules of each package, by the folder's name."""
    found: dict[str, list[Path]] = {}
    for path in sources():
        if path.name != "__init__.py":
            found.setdefault(relative(path.parent), []).append(path)
    return found


def module_table(modules: list[Path]) -> str:
    """Return a table with the first paragraph of each module's docstring."""
    rows = ["| module | does |", "|---|---|"]
    for path in modules:
        docstring = ast.get_docstring(tree_of(path)) or ""
        first = " ".join(docstring.partition("\n\n")[0].split()).removesuffix(".")
        rows.append(f"| `{path.name}` | {first.replace('``', '`')} |")
    return "\n".join(rows)


def test_page_names_the_same_packages_of_others() -> None:
    assert quarantine_table() in PAGE.read_text(), "see this module's docstring"


def test_page_names_methods_that_exist() -> None:
    expect_none(_unknown_methods())


def _unknown_methods() -> Iterator[str]:
    """Yield each ``Class.method`` of the page that a class of this project does not define."""
    methods: dict[str, set[str]] = {}
    for node in (node for path in sources() for node in nodes_of(path)):
        if isinstance(node, ast.ClassDef):
            names = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            methods.setdefault(node.name, set()).update(names)
    for owner, method in re.findall(r"`([A-Z]\w+)\.(\w+)`", PAGE.read_text()):
        if owner in methods and method not in methods[owner]:
            yield f"{relative(PAGE)}: {owner} has no method {method}"


def test_page_has_the_life_of_a_pod() -> None:
    assert pod_table() in PAGE.read_text(), "see this module's docstring"


def test_paths_that_the_pages_name_exist() -> None:
    path = re.compile(r"`((?:activator|throttler|tests|docs)/[\w./]+\.\w+)`")
    expect_none(
        f"{relative(page)}:{number}: {name} does not exist"
        for page in sorted((ROOT / "docs").glob("*.md"))
        for number, line in enumerate(page.read_text().splitlines(), 1)
        for name in path.findall(line)
        if not (ROOT / name).exists()
    )


def quarantine_table() -> str:
    lines = ["| package | only in | why |", "|---|---|---|"]
    for name, (files, why) in sorted(QUARANTINE.items()):
        where = ", ".join(f"`{file.removeprefix('activator/')}`" for file in sorted(files))
        lines.append(f"| {name} | {where} | {why} |")
    return "\n".join(lines)


def pod_table() -> str:
    """Return the states and events of a pod, from the throttler's own table."""
    lines = [
        "| state \\ event | " + " | ".join(event.value for event in PodEvent) + " |",
        "|---" * (len(PodEvent) + 1) + "|",
    ]
    for state in PodState:
        if any(known is state for known, _ in TRANSITIONS):
            cells = " | ".join(_cell(state, event) for event in PodEvent)
            lines.append(f"| **{state.value}** | {cells} |")
    return "\n".join(lines)


def _cell(state: PodState, event: PodEvent) -> str:
    follows = TRANSITIONS.get((state, event))
    if follows is None:
        return "–"
    return f"{follows.state.value}, new epoch" if follows.new_epoch else follows.state.value


def written_page(text: str) -> str:
    """Return the page with its generated tables made again from the code."""
    text = re.sub(r"\| package \| only in \|.*\n(?:\|.*\n)+", quarantine_table() + "\n", text)
    text = re.sub(r"\| state \\ event \|.*\n(?:\|.*\n)+", lambda _: pod_table() + "\n", text)
    return text


def print_modules(rooms: list[str]) -> None:
    """Print what each module does; of all folders, or of each folder whose path begins so."""
    for folder, modules in packages().items():
        if not rooms or any(folder.startswith(room.rstrip("/")) for room in rooms):
            print(f"{folder}/\n{module_table(modules)}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(written_page(PAGE.read_text()))
    else:
        print_modules(sys.argv[1:])
