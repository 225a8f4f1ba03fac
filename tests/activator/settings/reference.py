"""The tables of settings in docs/reference.md; ``python -m tests.activator.settings.reference``."""

from __future__ import annotations

import re
from pathlib import Path
from types import EllipsisType
from typing import Final

from activator.scale import settings as scale_settings
from activator.settings.config import SETTINGS
from activator.settings.setting import SettingRow, shown

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "reference.md"
#: The settings of each program, by the name in the markers around their tables.
TABLES: Final = {"settings": SETTINGS, "scale settings": scale_settings.SETTINGS}


def markdown(rows: tuple[SettingRow, ...]) -> str:
    """Return settings for the reference: a heading and a table for each section."""
    sections = dict.fromkeys(row.section for row in rows)
    return "\n\n".join(_section(name, rows) for name in sections)


def _section(name: str, rows: tuple[SettingRow, ...]) -> str:
    """Return a heading and a table; without a column of commands where all rows have the same."""
    own = [row for row in rows if row.section == name]
    commands = {row.commands for row in own}
    heads = ["flag, variable", "default, and why", "meaning"]
    before = []
    if len(commands) > 1:
        heads.append("commands")
    else:
        before = [f"Commands: {', '.join(*commands)}.", ""]
    lines = [f"### {name}", "", *before, f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join(lines + [_line(row, with_commands=len(commands) > 1) for row in own])


def _line(row: SettingRow, *, with_commands: bool) -> str:
    names = "<br>".join(f"`{name}`" for name in row.variables)
    cells = [
        f"`{row.flag}` {row.kind.metavar}<br>{names}".replace("|", "\\|"),
        f"{_defaults_cell(row)}<br>{row.reason}",
        row.meaning,
    ]
    if with_commands:
        cells.append(", ".join(row.commands))
    return f"| {' | '.join(cells)} |"


def _defaults_cell(row: SettingRow) -> str:
    by_text: dict[str, list[str]] = {}
    for command in row.commands:
        by_text.setdefault(row.default_text(command) or "none", []).append(command)
    if len(by_text) == 1:
        cell = next(iter(by_text))
    else:
        cell = "; ".join(f"{', '.join(commands)}: {text}" for text, commands in by_text.items())
    if not isinstance(row.keda, EllipsisType):
        cell += f"; dialect keda alone: {shown(row.keda) or 'none'}"
    return cell


def written_page(page: str) -> str:
    """Return the page with its tables of settings made again."""
    for name, rows in TABLES.items():
        between = re.compile(rf"(?<=<!-- {name} -->\n).*(?=\n<!-- /{name} -->)", re.DOTALL)
        assert between.search(page), f"{PAGE} must hold <!-- {name} --> … <!-- /{name} -->"
        page = between.sub(lambda _, rows=rows: markdown(rows), page)
    return page


if __name__ == "__main__":
    PAGE.write_text(written_page(PAGE.read_text()))
