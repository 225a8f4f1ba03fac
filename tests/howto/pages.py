"""Pages as a reader follows them: files to save, commands to type, and the output to expect."""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted(
    [*(ROOT / "docs/how-to").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
)

#: On a line of its own: any number of lines.
ANY: Final = "…"
#: What differs from run to run. A page shows one value, and each value of the same form is right.
VARIES: Final = (
    r"\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT",
    r"Retry-After: \d+|retry-after: \d+",  # a forecast, from the duration of the last starts
    r"(?<![0-9a-f])[0-9a-f]{24}(?![0-9a-f])",  # the token of a cookie
    r"activator \d+\.\d+\.\d+, (?:pure|compiled) build, Python \d+\.\d+\.\d+",
    r"\b10(?:\.\d+){3}\b",  # the address of a pod in a cluster
    r"\b\d+(?:\.\d+)?(?:ms| ?s|m|h)\b",  # ages and durations
    r"not applied: \S+ \d+|\d+ requests? a minute|\d+ bytes in memory",
    r"\d+ high, \d+ normal, \d+ low|\d+ of greedy",  # queues that move meanwhile
)
_VARIES = re.compile("|".join(f"({each})" for each in VARIES))
_FENCE = re.compile(r"^( *)```(\w*)$")
_SAVE_NEXT = re.compile(r"(?:[Ss]ave|and) (?:this|it) as `([^`]+)`")
_SAVE_LAST = re.compile(r"[Ss]ave the \w+ above as `([^`]+)`")


class Step(NamedTuple):
    """A command, and the lines that the page shows below it."""

    line: int
    command: str
    shown: tuple[str, ...]


class Block(NamedTuple):
    """A console block, in the section with this heading."""

    section: str
    line: int
    steps: tuple[Step, ...]


class File(NamedTuple):
    """A text that the reader saves under a name."""

    line: int
    path: str
    text: str


def name(page: Path) -> str:
    """Return the page's path in the project."""
    return str(page.relative_to(ROOT))


def read(page: Path) -> list[Block | File]:
    """Return the files and console blocks of a page, in its order."""
    found: list[Block | File] = []
    section = prose = last = ""
    fence: re.Match[str] | None = None
    start, body = 0, list[str]()
    for number, line in enumerate(page.read_text().splitlines(), 1):
        opened = _FENCE.match(line)
        if fence is None and opened is None:
            section = line.lstrip("# ") if line.startswith("#") else section
            prose += line + "\n"
        elif fence is None:
            fence, start, body = opened, number, []
        elif opened is None:
            body.append(line.removeprefix(fence[1]))
        elif fence[2] == "console":
            found.append(Block(section, start, tuple(_steps(start + 1, body))))
            fence, prose = None, ""
        else:
            text = "\n".join(body) + "\n"
            found += [File(start, path, last) for path in _SAVE_LAST.findall(prose)]
            found += [File(start, path, text) for path in _SAVE_NEXT.findall(prose)]
            fence, prose, last = None, "", text
    return found


def _steps(number: int, body: Sequence[str]) -> Iterator[Step]:
    at = 0
    while at < len(body):
        assert body[at].startswith("$ "), f"line {number + at}: a block begins with a command"
        first, command = at, body[at].removeprefix("$ ")
        while not _is_complete(command):
            at += 1
            command += "\n" + body[at]
        at = shown = at + 1
        while at < len(body) and not body[at].startswith("$ "):
            at += 1
        yield Step(number + first, command, tuple(body[shown:at]))


def _is_complete(command: str) -> bool:
    """Return whether a shell would execute the command, instead of waiting for more lines."""
    if command.endswith("\\"):
        return False
    if not re.search(r"\b(?:do|then|case)\b|['\"({]", command):
        return True  # saves a process
    checked = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True)
    return checked.returncode == 0


def difference(shown: Sequence[str], output: str, where: str) -> str:
    """Return what differs between the shown lines and an output, or an empty text."""
    actual = [line.rstrip() for line in output.rstrip().splitlines()]
    expected = [line.rstrip() for line in "\n".join(shown).rstrip().splitlines()]
    whole = "".join("(?:.*\n)*?" if line == ANY else f"{_pattern(line)}\n" for line in expected)
    if re.fullmatch(whole, "".join(line + "\n" for line in actual)):
        return ""
    patterns = {line: re.compile(_pattern(line)) for line in expected if line != ANY}
    known = [
        next((line for line, each in patterns.items() if each.fullmatch(found)), found)
        for found in actual
    ]
    return "\n".join(difflib.unified_diff(expected, known, where, "the output", lineterm=""))


def _pattern(line: str) -> str:
    """Return the pattern of a line: values may vary, and so may the width of a column."""
    pattern, end = "", 0
    for value in _VARIES.finditer(line):
        assert value.lastindex is not None
        pattern += _literal(line[end : value.start()]) + f"(?:{VARIES[value.lastindex - 1]})"
        end = value.end()
    return pattern + _literal(line[end:])


def _literal(text: str) -> str:
    return " +".join(re.escape(part) for part in re.split(r" {2,}", text))
