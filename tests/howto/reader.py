"""A reader who follows a page: saves its files, types its commands, compares the output."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from tests.howto import pages
from tests.howto.pages import Block, File, Step
from tests.howto.table import RUNS, TABLE, Holds, Row, Shows, World, staying
from tests.howto.terminal import Program, Result, Terminals
from tests.howto.worlds import Place

#: The status of a pipe whose last command, such as head, has read enough.
_ENOUGH = 141


class Item(NamedTuple):
    """A block with its row."""

    block: Block
    row: Row


def rows(page: Path) -> list[Item | File]:
    """Return the files and blocks of a page, each block with its row.

    Raises:
        AssertionError: a block has no row, or a row has no block.
    """
    found = pages.read(page)
    sections = TABLE[pages.name(page)].sections if pages.name(page) in TABLE else {}
    left = {section: list(rows) for section, rows in sections.items()}
    items: list[Item | File] = []
    for each in found:
        if isinstance(each, File):
            items.append(each)
            continue
        where = f"{pages.name(page)}:{each.line}"
        assert left.get(each.section), f"{where}: tests/howto/table.yaml has no row for this block"
        items.append(Item(each, left[each.section].pop(0)))
    over = {section: len(rows) for section, rows in left.items() if rows}
    assert not over, f"{pages.name(page)}: rows of tests/howto/table.yaml without a block: {over}"
    return items


def not_run() -> list[str]:
    """Return a line for each command that does not run, with the reason."""
    lines = []
    for page in pages.PAGES:
        for item in rows(page):
            if isinstance(item, Item):
                for number, step in enumerate(item.block.steps):
                    if reason := item.row.not_run or item.row.skips.get(number):
                        command = step.command.partition("\n")[0].partition("  #")[0].strip()
                        lines.append(f"{pages.name(page)}:{step.line}: {command}: {reason}")
    return lines


def worlds(page: Path) -> list[World]:
    """Return the worlds in which blocks of a page run."""
    own = TABLE[pages.name(page)].world
    used = [
        item.row.world or own
        for item in rows(page)
        if isinstance(item, Item) and not item.row.not_run
    ]
    return list(dict.fromkeys(used))


class Reader:
    """Follows one page in one world."""

    def __init__(self, page: Path, world: World, place: Place, records: Path) -> None:
        self._name = pages.name(page)
        self._items = rows(page)
        self._own = TABLE[self._name].world
        self._world = world
        self._folder = place.folder
        self._terminals = Terminals(place.folder, place.enter, place.environment, records)
        self._staying: list[tuple[Program, Step]] = []
        self._waiting: list[tuple[Program | Result, Step]] = []

    def follow(self) -> None:
        """Do what the page says, until a difference."""
        try:
            for item in self._items:
                if isinstance(item, File):
                    self._save(item)
                elif (item.row.world or self._own) is self._world and not item.row.not_run:
                    self._execute(item.block, item.row)
            self._join()
            for program, step in self._staying:
                if program.status:
                    self._fail(step.line, step.command, f"ended with status {program.status}")
        finally:
            self._terminals.close()

    def _save(self, file: File) -> None:
        """Save a file at once, as editors do: under another name first."""
        path = self._folder / file.path
        path.parent.mkdir(exist_ok=True)
        incomplete = path.with_name(f".{path.name}.new")
        incomplete.write_text(file.text)
        incomplete.replace(path)

    def _execute(self, block: Block, row: Row) -> None:
        if row.stops:
            self._join()
            for program in self._terminals.programs:
                if row.stops in program.command and program.status is None:
                    program.interrupt()
        for command in row.before:
            step = Step(block.line, str(command), ())
            if isinstance(command, Holds):
                self._await(step, command, None)
            else:
                self._step(step, RUNS, 0)
        for number, step in enumerate(block.steps):
            if number not in row.skips:
                self._step(step, row, number)

    def _step(self, step: Step, row: Row, number: int) -> None:
        command = step.command
        for shown, stands_for in row.replace.items():
            command = command.replace(shown, stands_for)
        sign, watches = staying(command), "--watch" in command
        found: Program | Result
        if sign or watches or (number in row.waits and not command.endswith("&")):
            found = self._terminals.start(command.removesuffix("&"))
            if sign:
                self._await(step, sign, found)
                self._staying.append((found, step))
        else:
            found = self._ends(step.line, command, number in row.fails or bool(step.shown))
        if number in row.waits:
            self._waiting.append((found, step))
        elif step.shown and number in row.again:
            self._repeat(step, command)
        elif step.shown and not watches:
            self._compare(step, found.output)
        if number in row.then:
            self._await(step, row.then[number], found)
        if watches and isinstance(found, Program):
            found.interrupt()
            self._terminals.programs.remove(found)

    def _ends(self, line: int, command: str, fails: bool = False) -> Result:
        """Run a command that ends; the output of one that may fail is compared."""
        try:
            result = self._terminals.run(command)
        except AssertionError as error:
            self._fail(line, command, str(error))
        if result.status and result.status != _ENOUGH and not fails:
            self._fail(line, command, f"ended with status {result.status}:\n{result.output}")
        return result

    def _repeat(self, step: Step, command: str) -> None:
        """Run a command again until it prints what the page shows."""
        result: Result | None = None

        def is_shown() -> bool:
            nonlocal result
            result = self._terminals.run(command)
            return not pages.difference(step.shown, result.output, "")

        if not self._terminals.wait(is_shown) and result is not None:
            self._compare(step, result.output)

    def _await(self, step: Step, sign: Shows | Holds, found: Program | Result | None) -> None:
        """Wait until a sign is there."""

        def is_there() -> bool:
            if isinstance(sign, Holds):
                return self._terminals.run(sign.command).status == 0
            return found is not None and sign.text in found.output

        def is_there_or_over() -> bool:
            return is_there() or (isinstance(found, Program) and bool(found.status))

        if not (self._terminals.wait(is_there_or_over) and is_there()):
            self._fail(
                step.line, step.command, f"waited in vain: {sign}\n{found.output if found else ''}"
            )

    def _join(self) -> None:
        """Wait until the commands end that waited for later ones."""
        for found, step in self._waiting:
            if isinstance(found, Result):
                self._ends(step.line, "wait")
            elif not self._terminals.wait(lambda found=found: found.status is not None):
                self._fail(step.line, step.command, f"did not end:\n{found.output}")
            elif found.status and not step.shown:
                self._fail(step.line, step.command, f"ended with {found.status}:\n{found.output}")
            if step.shown:
                self._compare(step, found.output)
        self._waiting.clear()

    def _compare(self, step: Step, output: str) -> None:
        if found := pages.difference(step.shown, output, f"{self._name}:{step.line}"):
            self._fail(step.line, step.command, f"the output differs:\n{found}")

    def _fail(self, line: int, command: str, what: str) -> NoReturn:
        logs = [
            f"--- {each.command}\n" + "\n".join(each.output.splitlines()[-8:])
            for each in self._terminals.programs
        ]
        text = f"{self._name}:{line}: {command}: {what.rstrip()}"
        pytest.fail("\n".join([text, *logs]), pytrace=False)
