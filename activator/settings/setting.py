"""Finds the value of a setting: in its flag, then in the environment, then its default.

A row of the table is a dataclass field with a ``SettingRow`` as its metadata. The module must not
know which settings the program has (activator/settings/config.py), nor parse a text (values.py).
Knative's counterpart: the envconfig library, which does this by struct tags.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from activator.settings import values
from activator.settings.values import Kind

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


T = TypeVar("T")
P = ParamSpec("P")

_ROW: Final = "setting"  # the key of the row in a field's metadata

COMMANDS: Final = ("run", "local", "demo", "status", "explain")
SERVING: Final = ("run", "local", "demo")
"""The commands that serve traffic; they share most settings."""
ASKING: Final = ("status", "explain")
"""The commands that query a running activator."""

#: Variables that kubelet writes for each Service (enableServiceLinks), with their values.
_LINK: Final = re.compile(
    r"\w+_(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)=|\w+_PORT=\w+://"
)

# Characters of a wrong value that an error repeats; a longer value would hide the message.
_LONGEST_ECHO = 300

RESOLV_CONF: Final = Path("/etc/resolv.conf")


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of values.

    Attributes:
        command: one of COMMANDS; chooses among defaults.
        flags: the command line's values by setting name; None or absent means not given.
        environ: the environment variables. ``--zap-…`` among them are arguments of the add-on's
            program.
        resolv_conf: a file that may name the cluster's domain.
        known: the values of the rows above, which a derived default may need; from the beginning
            that of ``dialect``.
    """

    command: str
    flags: Mapping[str, str | None]
    environ: Mapping[str, str]
    resolv_conf: Path = RESOLV_CONF
    known: dict[str, Any] = field(default_factory=dict)

    @property
    def reads_add_on(self) -> bool:
        """Whether the variables of the KEDA HTTP add-on count."""
        return "keda" in self.known.get("dialect", ())

    @property
    def replaces_add_on(self) -> bool:
        """Whether the process replaces the add-on's interceptor, so that its defaults count."""
        if self.command != "run" or not self.reads_add_on:
            return False
        return self.known["dialect"] == ("keda",) or is_add_on(self.environ)


@dataclass(frozen=True, slots=True)
class Derived:
    """A default that depends on the machine or on settings further up in the table.

    Attributes:
        text: describes the default, for people.
        derive: returns the default as a text in the setting's written form.
    """

    text: str
    derive: Callable[[Sources], str]


REQUIRED: Final = None
Default = str | Derived | None


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One row of the table.

    Attributes:
        kind: the written form: accepted values and their parser.
        variable: the environment variable; empty stands for ``ACTIVATOR_`` and the name.
        section: its heading in help and reference.
        default: in the written form; ``REQUIRED`` means no default.
        meaning: what it does.
        reason: why it has this default.
        local, demo: other defaults of these commands; ``...`` for none. ``status`` and ``explain``
            have that of ``demo``, which has that of ``local``.
        commands: the commands that read it; for other commands it has its default.
        empty_is_value: whether an empty variable is a value; otherwise it counts as not set,
            as in Knative.
        add_on: the variables of the KEDA HTTP add-on for it, separated by blanks; the first one
            that is set counts, if ``variable`` is not. Zero means "not set", unless it is the last
            one.
        add_on_zero: what zero means there, in the written form; empty if it means zero.
        keda: the default of ``run`` in place of the add-on, see ``Sources.replaces_add_on``;
            ``...`` for no other.
        name: the attribute of ``Settings``; ``rows`` sets it.
    """

    kind: Kind[Any]
    variable: str
    section: str
    default: Default
    meaning: str
    reason: str = "Knative's default."
    _: KW_ONLY
    local: Default | EllipsisType = ...
    demo: Default | EllipsisType = ...
    commands: tuple[str, ...] = SERVING
    empty_is_value: bool = False
    add_on: str = ""
    add_on_zero: str = ""
    keda: Default | EllipsisType = ...
    name: str = ""

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return "--" + self.name.replace("_", "-")

    def default_of(self, command: str) -> Default:
        """Return the default of one command, in the written form."""
        may_be = self.default, self.local, self.demo
        last = {"run": 1, "local": 2}.get(command, len(may_be))
        return [each for each in may_be[:last] if not isinstance(each, EllipsisType)][-1]

    def default_text(self, command: str) -> str:
        """Return the default of one command, for people; empty if it is the empty text."""
        return shown(self.default_of(command))

    @property
    def variables(self) -> tuple[str, ...]:
        """Its environment variables; the ones of the add-on come last."""
        return (self.variable, *self.add_on.split())


def shown(default: Default) -> str:
    """Return a default for people; empty if it is the empty text."""
    if default is REQUIRED:
        return "required"
    return default.text if isinstance(default, Derived) else default


def _declares(
    row: Callable[Concatenate[Kind[Any], P], SettingRow],
) -> Callable[Concatenate[Kind[T], P], T]:
    def declare(kind: Kind[T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        made: T = field(metadata={_ROW: row(kind, *args, **kwargs)})
        return made

    return declare


#: Returns a field of ``Settings`` with its row; takes the arguments of ``SettingRow``.
setting: Final = _declares(SettingRow)


def rows(settings: type[DataclassInstance]) -> tuple[SettingRow, ...]:
    """Return the rows of a dataclass's fields, in their order."""
    found = {made.name: made.metadata[_ROW] for made in fields(settings) if _ROW in made.metadata}
    return tuple(
        replace(row, name=name, variable=row.variable or f"ACTIVATOR_{name.upper()}")
        for name, row in found.items()
    )


class ConfigError(ValueError):
    """Wrong settings; ``problems`` has one sentence for each of them."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


def find_all(
    table: Iterable[SettingRow],
    sources: Sources,
    contradictions: Callable[[Mapping[str, Any]], list[str]],
) -> dict[str, Any]:
    """Return the value of each setting, by its name.

    Arguments:
        table: the rows; a default may depend on rows above it only.
        sources: of the values; ``known`` gets them.
        contradictions: returns one sentence for each contradiction between values.

    Raises:
        ConfigError: lists all wrong and all missing settings; without any, all contradictions.
    """
    problems = []
    for row in table:
        try:
            sources.known[row.name] = find(row, sources)
        except ValueError as error:
            problems.append(str(error))
    if problems := problems or contradictions(sources.known):
        raise ConfigError(problems)
    return sources.known


def unknown_variables(
    known: Sequence[str], environ: Mapping[str, str], others: Collection[str] = ()
) -> list[str]:
    """Return one sentence for each variable with a prefix of these programs that nothing reads.

    Arguments:
        known: the names of the variables that some command reads.
        environ: the environment variables.
        others: further names that are no mistake.
    """
    return [
        f"environment variable {name} is unknown and has no effect"
        + "".join(f"; did you mean {near}?" for near in get_close_matches(name, known, 1, 0.8))
        for name, value in sorted(environ.items())
        if name.startswith(("ACTIVATOR_", "KEDA_"))
        and name not in known
        and name not in others
        and not _LINK.match(f"{name}={value}")
    ]


def find(row: SettingRow, sources: Sources) -> Any:
    """Return the value of one setting.

    Raises:
        ValueError: the value is wrong or missing. The text names the setting, the source of the
            value, the value and the accepted values.
    """
    given = _given(row, sources) if sources.command in row.commands else None
    if given is None:
        return _default(row, sources)
    text, source = given
    try:
        return row.kind.parse(text)
    except ValueError:
        raise ValueError(
            f"{row.name} (from {source}): {_echo(text)} is not accepted; "
            f"accepted is {row.kind.accepts}.{_service_link(text)}"
        ) from None


def _service_link(text: str) -> str:
    # A Service named activator-http makes the kubelet set ACTIVATOR_HTTP_PORT in each pod.
    if not text.startswith("tcp://"):
        return ""
    return (
        " Kubernetes writes such variables for a Service of that name; "
        "enableServiceLinks: false in the pod's spec keeps them out."
    )


def _given(row: SettingRow, sources: Sources) -> tuple[str, str] | None:
    """Return the text given for a setting, and its source; None if it is not given."""
    text = sources.flags.get(row.name)
    if text is not None:
        return text, f"flag {row.flag}"
    text = sources.environ.get(row.variable)
    if text is not None and (text or row.empty_is_value):
        return text, f"environment variable {row.variable}"
    return _given_by_add_on(row, sources) if sources.reads_add_on else None


def _given_by_add_on(row: SettingRow, sources: Sources) -> tuple[str, str] | None:
    names = row.add_on.split()
    for name in names:
        text = sources.environ.get(name, "")
        if text.rstrip("hmnsuµ") == "0":
            text = "" if name != names[-1] else row.add_on_zero or text
        if text and not text.startswith("tcp://"):  # as kubelet writes for a Service
            kind = "flag" if name.startswith("--") else "environment variable"
            return text, f"{kind} {name}"
    return None


def _default(row: SettingRow, sources: Sources) -> Any:
    default = row.default_of(sources.command)
    if sources.replaces_add_on and not isinstance(row.keda, EllipsisType):
        default = row.keda
    if default is REQUIRED:
        raise ValueError(
            f"{row.name} is missing: pass flag {row.flag} or set environment variable "
            f"{row.variable}; accepted is {row.kind.accepts}. {row.meaning}"
        )
    text = default.derive(sources) if isinstance(default, Derived) else default
    return row.kind.parse(text)


def _echo(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_ECHO else text[:_LONGEST_ECHO] + "…")


# -- defaults that the machine or other settings give ----------------------------------------------

SERVICE_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_USUAL_DOMAIN: Final = "cluster.local"


def _every_address(sources: Sources) -> str:
    """Return the address that stands for all addresses of this pod, of both families.

    ``::`` takes IPv4 too. But a kernel without IPv6 cannot bind it, so the pod must have such an
    address. Kubernetes' downward API has all addresses in ``status.podIPs``.
    """
    environ = sources.environ
    addresses = environ.get("POD_IPS", "") or environ.get("POD_IP", "")
    if not addresses and sources.replaces_add_on:
        addresses = _own_address(sources)
    return "::" if ":" in addresses else "0.0.0.0"


def _own_address(sources: Sources) -> str:
    """Return the address from which this machine reaches the API server.

    A connected UDP socket sends nothing; it only has the address that the kernel would use.
    """
    server = sources.environ.get("KUBERNETES_SERVICE_HOST", "") or "192.0.2.1"
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as connected:
        connected.connect((server, 443))
        return str(connected.getsockname()[0])
    return "127.0.0.1"


def _own_namespace(sources: Sources) -> str:
    if named := sources.environ.get("KEDA_HTTP_CURRENT_NAMESPACE"):
        return named
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text().strip()
    except OSError:
        return "keda"


def _replaced(sources: Sources) -> str:
    """Return the default dialect of ``run``: keda in the Deployment of the add-on's interceptor."""
    return "keda" if is_add_on(sources.environ) else "knative"


def is_add_on(environ: Mapping[str, str]) -> bool:
    """Return whether the variables come from the add-on's Deployment, which always sets this one.

    kubelet sets it to a URL for a Service named keda-http-proxy.
    """
    return environ.get("KEDA_HTTP_PROXY_PORT", "").isdigit()


def is_add_on_scaler(environ: Mapping[str, str]) -> bool:
    """Return whether the variables come from the Deployment of the add-on's scaler."""
    return bool(environ.get("KEDA_HTTP_SCALER_PORT"))


def _by_grace(usual: str, short: str) -> Derived:
    # Only up to version 0.12 the add-on's Deployment sets this variable. Its grace period is 10 s.
    return Derived(
        f"{usual}; {short} with `KEDA_HTTP_CURRENT_NAMESPACE`",
        lambda sources: short if "KEDA_HTTP_CURRENT_NAMESPACE" in sources.environ else usual,
    )


def _cluster_domain(sources: Sources) -> str:
    """Return the first search domain with prefix ``svc.``, as Knative's pkg/network/domain.go."""
    try:
        lines = sources.resolv_conf.read_text(errors="replace").splitlines()
    except OSError:
        return _USUAL_DOMAIN
    searches = (words for line in lines if (words := line.split()) and words[0] == "search")
    for domain in (word for words in searches for word in words[1:]):
        if domain.startswith("svc."):
            try:
                return values.DOMAIN.parse(domain.removeprefix("svc."))
            except ValueError:
                continue
    return _USUAL_DOMAIN


def _peer_url(sources: Sources, service: str, dialect: str) -> str:
    """Return the URL of a Service of the system namespace; empty without its dialect."""
    known = sources.known
    if "system_namespace" not in known or "cluster_domain" not in known:
        return ""  # one of both is wrong, so the activator does not start anyway
    if dialect not in known.get("dialect", ()):
        return ""
    return f"ws://{service}.{known['system_namespace']}.svc.{known['cluster_domain']}:8080"


def _admin_url(sources: Sources) -> str:
    """Return the URL of the activator in this pod; a port that none can have does not count."""
    found = (sources.environ.get(f"{each}_ADMIN_PORT") for each in ("ACTIVATOR", "KEDA_HTTP"))
    ports = (int(each) for each in found if each and each.isdecimal())
    return f"http://127.0.0.1:{next((port for port in ports if 0 < port <= 0xFFFF), 8080)}"


def _scaler_admin_url(sources: Sources) -> str:
    namespace = sources.environ.get("SYSTEM_NAMESPACE", "")
    try:
        return f"http://activator-scale.{values.DNS_LABEL.parse(namespace)}.svc:8081"
    except ValueError:
        return "http://127.0.0.1:8081"  # not in a pod: kubectl port-forward


ACTIVATORS: Final = Derived(
    # Any namespace will do if the right one is wrong: the program does not start then.
    "SYSTEM_NAMESPACE/activator-service",
    lambda sources: f"{sources.known.get('system_namespace', 'default')}/activator-service",
)
HOST_NAME: Final = Derived("the host's name", lambda _: socket.gethostname() or "localhost")
EVERY_ADDRESS: Final = Derived(
    "0.0.0.0; `::` if `POD_IPS` or `POD_IP` has an IPv6 address", _every_address
)
OWN_ADDRESS: Final = Derived("the address that reaches the API server", _own_address)
OWN_NAMESPACE: Final = Derived(
    "`KEDA_HTTP_CURRENT_NAMESPACE`, else the namespace of the pod's ServiceAccount", _own_namespace
)
OF_SCALER: Final = Derived(
    "services; keda if `KEDA_HTTP_SCALER_PORT` is set",
    lambda sources: "keda" if is_add_on_scaler(sources.environ) else "services",
)
METRICS_OF_SCALER: Final = Derived(
    "9090; 2223 if `KEDA_HTTP_SCALER_PORT` is set",
    lambda sources: "2223" if is_add_on_scaler(sources.environ) else "9090",
)
INTERCEPTORS: Final = Derived(
    "none; with `KEDA_HTTP_SCALER_PORT` `KEDA_HTTP_SCALER_TARGET_ADMIN_NAMESPACE` and "
    "`KEDA_HTTP_SCALER_TARGET_ADMIN_SERVICE`",
    lambda sources: (
        "/".join(
            sources.environ.get(f"KEDA_HTTP_SCALER_TARGET_ADMIN_{word}", "")
            for word in ("NAMESPACE", "SERVICE")
        )
        if is_add_on_scaler(sources.environ)
        else ""
    ),
)
REPLACED: Final = Derived("knative; keda if `KEDA_HTTP_PROXY_PORT` is set", _replaced)
SHUTDOWN_DELAY: Final = _by_grace("5s", "2s")
DRAIN_TIMEOUT: Final = _by_grace("30s", "6s")
BIND: Final = Derived(
    "the value of `--bind`", lambda sources: str(sources.known.get("bind", "127.0.0.1"))
)
CLUSTER_DOMAIN: Final = Derived(
    "the `svc.` search domain of resolv.conf, else cluster.local", _cluster_domain
)
AUTOSCALER_URL: Final = Derived(
    "ws://autoscaler.SYSTEM_NAMESPACE.svc.CLUSTER_DOMAIN:8080; nothing without the dialect knative",
    lambda sources: _peer_url(sources, "autoscaler", "knative"),
)
SCALER_URL: Final = Derived(
    "ws://activator-scale.SYSTEM_NAMESPACE.svc.CLUSTER_DOMAIN:8080; nothing without the dialect "
    "services",
    lambda sources: _peer_url(sources, "activator-scale", "services"),
)
ADMIN_URL: Final = Derived(
    "http://127.0.0.1:PORT; PORT is `ACTIVATOR_ADMIN_PORT`, `KEDA_HTTP_ADMIN_PORT` or 8080",
    _admin_url,
)
SCALER_ADMIN_URL: Final = Derived(
    "http://activator-scale.SYSTEM_NAMESPACE.svc:8081 in a pod, else http://127.0.0.1:8081",
    _scaler_admin_url,
)
