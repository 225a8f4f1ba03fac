"""What a setting is, and how the value of one is found: flag, then environment, then default.

A row of the table is a dataclass field that carries a ``Setting`` as its metadata. Must not know
which settings the program has (activator/settings/config.py), nor how a text is read (values.py).
Knative's counterpart: the envconfig library, which does this by struct tags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from activator.settings.values import Kind

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

_ROW: Final = "setting"  # the key of a field's metadata under which its row lies

COMMANDS: Final = ("run", "local", "demo", "status", "explain")
SERVING: Final = ("run", "local", "demo")
"""The commands that serve traffic; they share most settings."""
ASKING: Final = ("status", "explain")
"""The commands that ask a running activator."""

# An echoed value must not bury the message that surrounds it; of a path the end is what matters.
_LONGEST_ECHO = 300


@dataclass(frozen=True, slots=True)
class Sources:
    """Where values come from.

    Attributes:
        command: one of COMMANDS; chooses among defaults.
        flags: what the command line said, by setting name; None or absent is not said.
        environ: the environment variables.
        resolv_conf: where the cluster's domain may be found.
        known: the values of the rows above, which a derived default may need.
    """

    command: str
    flags: Mapping[str, str | None]
    environ: Mapping[str, str]
    resolv_conf: Path
    known: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Derived:
    """A default that depends on the machine or on settings further up in the table.

    Attributes:
        text: what it is, for people.
        derive: makes it, as somebody would write it.
    """

    text: str
    derive: Callable[[Sources], str]


REQUIRED: Final = None
Default = str | Derived | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table.

    Attributes:
        name: the attribute of ``Settings``.
        variable: the environment variable.
        kind: what is accepted and how it is read.
        section: the heading under which help and reference show it.
        meaning: what it does, one sentence.
        reason: why the default is what it is, one sentence.
        commands: which commands read it; to the others it is its default.
        defaults: by command, as somebody would write it; ``REQUIRED`` where there is none.
        empty_is_value: whether an empty variable is a value; otherwise it counts as not set,
            as in Knative.
    """

    name: str
    variable: str
    kind: Kind[Any]
    section: str
    meaning: str
    reason: str
    commands: tuple[str, ...]
    defaults: Mapping[str, Default]
    empty_is_value: bool

    @property
    def flag(self) -> str:
        """The command line's option."""
        return "--" + self.name.replace("_", "-")

    def default_text(self, command: str) -> str:
        """The default of one command, for people; empty where it is the empty text."""
        default = self.defaults[command]
        if default is REQUIRED:
            return "required"
        return default.text if isinstance(default, Derived) else default


def setting(
    kind: Kind[T],
    variable: str,
    section: str,
    default: Default,
    meaning: str,
    reason: str,
    *,
    local: Default | EllipsisType = ...,
    demo: Default | EllipsisType = ...,
    commands: tuple[str, ...] = SERVING,
    empty_is_value: bool = False,
) -> T:
    """A field of ``Settings`` with its row; ``local`` and ``demo`` differ only where given."""
    of_local = default if isinstance(local, EllipsisType) else local
    of_demo = of_local if isinstance(demo, EllipsisType) else demo
    row = Setting(
        name="",  # the dataclass knows it; see rows()
        variable=variable,
        kind=kind,
        section=section,
        meaning=meaning,
        reason=reason,
        commands=commands,
        defaults=dict.fromkeys(COMMANDS, of_demo) | {"run": default, "local": of_local},
        empty_is_value=empty_is_value,
    )
    made: T = field(metadata={_ROW: row})
    return made


def rows(settings: type[DataclassInstance]) -> tuple[Setting, ...]:
    """The table that a dataclass's fields carry, in their order."""
    carrying = (made for made in fields(settings) if _ROW in made.metadata)
    return tuple(replace(made.metadata[_ROW], name=made.name) for made in carrying)


def find(row: Setting, sources: Sources) -> Any:
    """The value of one setting.

    Raises:
        ValueError: wrong or missing; its text names the setting, where the value came from, the
            value and what is accepted.
    """
    said = _said(row, sources) if sources.command in row.commands else None
    if said is None:
        return _default(row, sources)
    text, source = said
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


def _said(row: Setting, sources: Sources) -> tuple[str, str] | None:
    """What somebody wrote for a setting, and where; None when nobody did."""
    text = sources.flags.get(row.name)
    if text is not None:
        return text, f"flag {row.flag}"
    text = sources.environ.get(row.variable)
    if text is None or (text == "" and not row.empty_is_value):
        return None
    return text, f"environment variable {row.variable}"


def _default(row: Setting, sources: Sources) -> Any:
    default = row.defaults[sources.command]
    if default is REQUIRED:
        raise ValueError(
            f"{row.name} is missing: pass flag {row.flag} or set environment variable "
            f"{row.variable}; accepted is {row.kind.accepts}. {row.meaning}"
        )
    text = default.derive(sources) if isinstance(default, Derived) else default
    return row.kind.parse(text)


def _echo(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_ECHO else text[:_LONGEST_ECHO] + "…")


def markdown(rows: tuple[Setting, ...]) -> str:
    """The settings as the reference shows them: a heading and a table for each section."""
    sections = dict.fromkeys(row.section for row in rows)
    return "\n\n".join(_section(name, rows) for name in sections)


def _section(name: str, rows: tuple[Setting, ...]) -> str:
    head = [
        f"### {name}",
        "",
        "| flag | environment variable | default | commands | meaning | why this default |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join(head + [_line(row) for row in rows if row.section == name])


def _line(row: Setting) -> str:
    cells = (
        f"`{row.flag}` {row.kind.metavar}".replace("|", "\\|"),
        f"`{row.variable}`",
        _defaults_cell(row),
        ", ".join(row.commands),
        row.meaning,
        row.reason,
    )
    return "| " + " | ".join(cells) + " |"


def _defaults_cell(row: Setting) -> str:
    by_text: dict[str, list[str]] = {}
    for command in row.commands:
        by_text.setdefault(row.default_text(command) or "none", []).append(command)
    if len(by_text) == 1:
        return next(iter(by_text))
    return "; ".join(f"{', '.join(commands)}: {text}" for text, commands in by_text.items())
