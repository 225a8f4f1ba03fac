"""Makes a command whose options are settings, and reports all wrong ones at once.

Options come from the tables in activator/settings/config.py and activator/scale/settings.py. It
also has the exit statuses of all commands, and formats their help.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Final

import click

from activator.scale import settings as scale_settings
from activator.scale.settings import ScaleSettings
from activator.settings.config import SETTINGS, Settings, load, settings_of
from activator.settings.setting import ConfigError, SettingRow, unknown_variables

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2  # also click's status for wrong options
NO_RESPONSE: Final = 3
NOT_KNOWN: Final = 4
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it


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
    """A command whose options are settings, shown in help under the headings of the table."""

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

        params = [*(_option(row, name) for row in _rows(name)), *extra]
        return SettingsCommand(name, None, callback, params, function.__doc__, epilog)

    return decorate


def _settings(command: str, flags: dict[str, str | None]) -> Settings | ScaleSettings | None:
    """Return the settings, and print unknown variables; on errors print them and return None."""
    known = [row.variable for row in (*SETTINGS, *scale_settings.SETTINGS)]
    for text in unknown_variables(known, os.environ):
        click.echo(f"activator {command}: {text}", err=True)
    try:
        if command == scale_settings.COMMAND:
            return scale_settings.load(flags)
        return load(command, flags)
    except ConfigError as error:
        count = len(error.problems)
        what = "a setting is" if count == 1 else f"{count} settings are"
        click.echo(f"activator {command}: {what} wrong or missing:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
        click.echo(f"All settings: activator {command} --help", err=True)
        return None
