"""The language of the texts: no dialect word of the table comes back, in the rooms that are done.

docs/glossary.md has the words that the project uses. ``python -m tests.test_language`` prints the
length of sentences and the count of dialect words per folder, for all rooms; ``--at main`` reads
the texts of a commit, ``--show`` lists each dialect word with its place.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from statistics import quantiles
from typing import Final, NamedTuple

import pytest

from tests.guards import expect_none

ROOT: Final = Path(__file__).resolve().parents[1]
GLOSSARY: Final = "docs/glossary.md"

#: The rooms where the table is in force: patterns of paths, whose * also matches folders. Add
#: "throttler/*.py" and so on, one by one, when the texts of a room are done.
ROOMS: Final[tuple[str, ...]] = (
    "*.md",
    "activator/admin/*.py",
    *(f"activator/{name}.py" for name in ("__main__", "app", "build", "driver")),
    *(f"activator/{name}.py" for name in ("runtime", "servers")),
    "activator/cli/*.py",
    "activator/objects/*.py",
    "activator/probing/*.py",
    "activator/proxy/http2/*.py",
    "activator/proxy/pods/*.py",
    "activator/proxy/transport/*.py",
    "activator/records/*.py",
    "activator/settings/*.py",
    "activator/telemetry/*.py",
    "activator/tls/*.py",
    "activator/console/*.py",
    "activator/process/*.py",
    "activator/knative/*.py",
    "activator/kpa/*.py",
    "activator/plain/*.py",
    "activator/scale/*.py",
    "activator/discovery/*.py",
    "activator/lab/*.py",
    "activator/proxy/__init__.py",
    "activator/proxy/client/*.py",
    "activator/proxy/exchange/*.py",
    "activator/proxy/message/*.py",
    "activator/autoscaler/*.py",
    "throttler/*.py",
    "backend/*.py",
    "benchmarks/*.py",
    "manifests/monitoring/grafana/*.py",
    "tests/activator/lab/*.py",
    *(f"tests/{name}.py" for name in ("conftest", "fork_server", "guards", "ports", "process")),
    *(f"tests/{name}.py" for name in ("bytecode", "rows", "tracing", "watchdog")),
    *(f"tests/test_{name}.py" for name in ("docs", "fork_server", "layering", "reasons", "rows")),
    "tests/activator/admin/*.py",
    "tests/activator/autoscaler/*.py",
    "tests/activator/console/*.py",
    "tests/activator/discovery/*.py",
    "tests/activator/knative/*.py",
    "tests/activator/kpa/*.py",
    "tests/activator/plain/*.py",
    "tests/activator/scale/*.py",
    "tests/activator/objects/*.py",
    "tests/activator/probing/*.py",
    "tests/activator/process/*.py",
    "tests/activator/proxy/*.py",
    "tests/activator/records/*.py",
    "tests/activator/settings/*.py",
    "tests/activator/telemetry/*.py",
    "tests/activator/tls/*.py",
    "tests/activator/test_*.py",
    "tests/activator/throttlers.py",
    "tests/backend/*.py",
    "tests/benchmarks/*.py",
    "tests/browser/*.py",
    "tests/compiled/*.py",
    "tests/e2e/*.py",
    "tests/fuzz/*.py",
    "tests/grpc/*.py",
    "tests/image/*.py",
    "tests/knative/*.py",
    "tests/manifests/*.py",
    "tests/monitoring/*.py",
    "tests/throttler/*.py",
)
#: The texts that the measurement also reads: all that a reader of the project may see.
MEASURED: Final[tuple[str, ...]] = ("*.md", "*.py")

#: Text of others, and text whose words are tests of words.
FOREIGN: Final = (
    r"(^|/)vendor/|_pb2\.pyi?$|^tests/test_language\.py$|(^|/)\.?venv[^/]*/|\.egg-info/"
)


class Word(NamedTuple):
    """A word of the dialect: a pattern in any case, and what to write instead."""

    pattern: str
    say: str


DIALECT: Final[tuple[Word, ...]] = (
    # One word for one thing.
    Word(r"wake-?ups?|wakes? up|woken?(?: up)?", "cold start"),
    Word(r"condemn\w*", "eject"),
    Word(r"strikes?", "consecutive errors"),
    Word(r"on trial", "half-open"),
    Word(r"absolv\w+", "recover"),
    Word(r"held until", "ejected until"),
    Word(r"(?:is|are|was|were|stays?) out for", "is ejected for"),
    Word(r"speaks? against|spoke against", "ejects; is an error of"),
    Word(r"drift(?:s|ed)?", "missed event; stale"),
    Word(r"freshness|(?<!prior )knowledge", "stale; what the activator has read"),
    Word(r"answer(?:s|ed|ing)?", "response; respond; error response"),
    Word(r"repl(?:y|ies|ied)", "response; error response"),
    Word(r"unfinished|partial (?:head|request)s?", "in-progress request head"),
    Word(r"deaf|stuck", "flow-control blocked"),
    Word(r"g[ia]ve[sn]? back|goes? out again|giving back", "retry; requeue; return"),
    Word(r"bur(?:y|ies|ied)|forg[eo]t(?:s|ten)?|abandon\w*", "remove; release"),
    Word(r"let(?:s|ting)? go", "release"),
    Word(r"mend(?:s|ed|ing)?", "repair; correct"),
    # The component that acts has a name.
    Word(r"whoever|whomever|whom|somebody|someone|everybody|everyone|anybody|nobody", "its name"),
    Word(r"we|us|our|ours|ourselves", "the activator"),
    Word(r"(?:he|she|his|her)", "its name"),
    Word(r"(?:(?<=^)|(?<=[.:;] )|(?<=\| ))who (?![^.?|]*\?)(?=\w+s\b|only|has)", "its name"),
    # No relative clause without its noun.
    Word(r"those (?:of which|of whom|which|that|who|of|in|with|for|from|whose)", "the noun"),
    Word(r"of which", "the noun; whose"),
    Word(r"what (?:it|they|is|was|has|one|a \w+) (?:met|has met|have met|had met)", "the noun"),
    Word(
        r"what (?:cannot|can|may|must|runs?|waits?|comes?|came|fails?|differs?|lasts?|outlives?"
        r"|passes|goes|went|remains|counts|follows)",
        "the noun",
    ),
    Word(r"(?:of|by|from|with|for|to|in|on|at|as|than|and) what", "the noun"),
    Word(r"whose word|its word|one'?s word", "what decides"),
    # Verbs of people, of programs.
    Word(r"told|tells? of|tells? what|tells? (?:it|them|clients?)", "log; report; notify; send"),
    Word(r"(?:is|are|was|were|be|been|being|were not|is not) asked", "request; query; probe"),
    Word(r"hears?|heard", "receive; learn"),
    Word(r"goodbyes?|has it back|in its hands|in the hands of|looks? away", "the protocol's word"),
    Word(r"believ\w+|trusts? (?:the )?word", "accept"),
    # Old or private turns of phrase.
    Word(r"anew", "again"),
    Word(r"as good as", "almost"),
    Word(r"lest", "so that … not"),
    Word(r"in(?:to)? the place of|tak(?:es?|ing) the place of", "instead of; replace"),
    Word(r"as a rule", "usually"),
    Word(r"all the same", "still"),
    Word(r"the very", "the same; exactly"),
    Word(r"but for|save for", "except"),
    Word(r"thereby|therein|thereof|whereby|wherein|whereupon|hence|thus|thereupon", "so"),
    Word(r"the like|its like|such as it is", "name it"),
    Word(r"nor had been|nor has it|nor is it", "a sentence of its own"),
    Word(r"as (?:that|those|these) (?:does|do|is|are|has|have)", "the noun"),
    Word(r"for ever", "until the process ends"),
    Word(r"besides", "in addition to; except; without; also"),
)

#: Words of a sentence; a tenth of the sentences of a room may have more.
MOST_WORDS: Final = 20

#: Dialect words that stay, by file: how many, and why. May only shrink.
EXCEPTIONS: Final[dict[str, tuple[int, str]]] = {
    "docs/reasons/bad-answers.md": (1, "the title is the word of the reason, which clients get"),
}

_ONE: Final = "|".join(f"(?P<w{index}>{word.pattern})" for index, word in enumerate(DIALECT))
_ANY: Final = re.compile(rf"\b(?:{_ONE})\b", re.IGNORECASE)
#: The same for text in lower case, without groups: it reads most texts, six times as fast.
_QUICK: Final = re.compile(rf"\b(?:{'|'.join(word.pattern for word in DIALECT)})\b")
#: Marks that _bare() removes.
_MARK: Final = re.compile(r"[`\[<*#>]|://|^ *(?:-|\d+\.) ")
_FENCE: Final = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_INDENTED: Final = re.compile(r"(?<=\n\n)(?: {4}(?! *[-*\d]).*\n)+")
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
#: Tables that tests compare with texts of the code: their words are the code's.
_GENERATED: Final = re.compile(
    r"^\| (?:module|package \| only in|state \\ event|flag|metric \| type|field of|phase: until"
    r"|`decidedBy`|status \| meaning).*\n(?:\|.*\n?)+",
    re.MULTILINE,
)
_LOG_CALLS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


class Text(NamedTuple):
    """One paragraph, cell, docstring, comment or log text, on one line, and where it begins."""

    line: int
    text: str


def markdown_texts(source: str) -> Iterator[Text]:
    """Yield the prose of a page: no code, no tables that the code generates, no addresses."""
    for pattern in (_FENCE, _COMMENT, _GENERATED, _INDENTED):
        source = pattern.sub(lambda found: "\n" * found[0].count("\n"), source)
    begun, lines = 0, list[str]()
    for number, line in enumerate([*source.splitlines(), ""], 1):
        if re.match(r" *\|[-|: ]+\|$", line):
            continue
        if line.lstrip().startswith("|"):
            yield from (Text(number, _bare(cell)) for cell in re.split(r"(?<!\\)\|", line))
        elif not line.strip() or re.match(r" *(?:[-*]|\d+\.) |#+ ", line):
            yield Text(begun, _bare(" ".join(lines)))
            begun, lines = number, [line] if line.strip() else []
            if line.startswith("#"):  # a heading is a paragraph of its own
                yield Text(begun, _bare(line))
                lines = []
        else:
            begun = begun if lines else number
            lines.append(line)


def _bare(text: str) -> str:
    """Return text without Markdown's marks; code and quotations count as one word."""
    if not _MARK.search(text):
        return " ".join(text.split())
    text = re.sub(r"`+[^`]*`+", "`", text)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^<>]+>|https?://\S+", " ", text)
    text = re.sub(r"(?<![*\w])\*(?!\*)[^*]+\*(?!\*)", "`", text)  # a quotation, as of a log line
    return " ".join(re.sub(r"^ *(?:[-*]|\d+\.|#+|>) +|[*]{1,2}", "", text).split())


#: String literals and comments; names that end in a prefix of strings are no part of them.
_LITERAL: Final = re.compile(
    r"""(?P<string>(?:\b[rbfu]{1,2})?(?:"{3}(?:[^"\\]|\\.|"(?!""))*"{3}"""
    r"""|'{3}(?:[^'\\]|\\.|'(?!''))*'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))"""
    r"""|(?P<comment>\#[^\n]*)""",
    re.DOTALL | re.IGNORECASE,
)
_LOGS: Final = re.compile(rf"\.(?:{'|'.join(sorted(_LOG_CALLS))})\(")


def python_texts(source: str) -> Iterator[Text]:
    """Yield docstrings, comments and the texts of log calls of a module.

    To parse all modules would take five times as long: only those with log calls are parsed.
    """
    begun, words, last = 0, list[str](), -1
    line, counted = 1, 0
    for found in _LITERAL.finditer(source):
        line, counted = line + source.count("\n", counted, found.start()), found.start()
        if found.lastgroup == "comment":
            if found[0].startswith(("# type:", "# noqa")):
                continue
            if line != last + 1:
                yield Text(begun, _bare(" ".join(words)))
                begun, words = line, []
            words.append(found[0].lstrip("#: "))
            last = line
        elif found[0].endswith('"""') and _is_docstring(source, found.start()):
            text: str = ast.literal_eval(found[0])
            for paragraph in re.split(r"\n\s*\n", text):
                yield Text(line, _bare(" ".join(paragraph.split())))
    yield Text(begun, _bare(" ".join(words)))
    if _LOGS.search(source):
        yield from _log_texts(ast.parse(source))


def _is_docstring(source: str, start: int) -> bool:
    """Return whether a string begins the module, or the block under a line with a colon."""
    *lines, here = source[max(0, start - 2000) : start].split("\n")
    if here.strip():
        return False
    before = (line.strip() for line in reversed(lines))
    code = (line.partition("  #")[0] for line in before if line and not line.startswith("#"))
    return next(code, ":").endswith(":")


def _log_texts(tree: ast.Module) -> Iterator[Text]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in _LOG_CALLS:
                for part in ast.walk(first):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield Text(first.lineno, part.value)


TEXTS: Final[Mapping[str, Callable[[str], Iterator[Text]]]] = {
    ".md": markdown_texts,
    ".py": python_texts,
}


class Found(NamedTuple):
    line: int
    said: str
    say: str


@cache
def texts_of(suffix: str, source: str) -> tuple[Text, ...]:
    """Return the texts of a file; two tests read each."""
    return tuple(TEXTS[suffix](source))


def dialect(path: str, source: str) -> list[Found]:
    """Return the dialect words of a file, in order."""
    texts = texts_of(PurePosixPath(path).suffix, source)
    return [
        Found(line, match[0], DIALECT[int(str(match.lastgroup)[1:])].say)
        for line, text in texts
        if _QUICK.search(text.lower())
        for match in _ANY.finditer(text)
    ]


class Sentence(NamedTuple):
    line: int
    text: str
    words: int


def sentences(path: str, source: str) -> list[Sentence]:
    """Return the sentences of a file that have at least three words."""
    found = (
        Sentence(line, one, len(re.findall(r"[^\s\-–→·=|]\S*", one)))
        for line, text in texts_of(PurePosixPath(path).suffix, source)
        for one in re.split(r"(?<=[.!?])\)?\"?\s+|(?<=:)\s+(?=[A-Z])", text)
    )
    return [sentence for sentence in found if sentence.words >= 3]


def paths(patterns: tuple[str, ...], commit: str = "") -> list[str]:
    """Return the files of the tree, or of a commit, that the patterns match."""
    return [path for path in _files(commit) if any(fnmatchcase(path, one) for one in patterns)]


@cache
def _files(commit: str) -> list[str]:
    """Return the texts of the tree, or of a commit, in order."""
    command = ["git", "ls-tree", "-r", "--name-only", commit]
    if not commit:
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = _git(*command[1:]).splitlines()
    except (OSError, subprocess.CalledProcessError):  # a tree without its history
        found = (path for path in ROOT.rglob("*") if path.suffix in TEXTS)
        listed = [path.relative_to(ROOT).as_posix() for path in found]
    texts = (path for path in listed if path.endswith(tuple(TEXTS)))
    own = (path for path in texts if not re.search(FOREIGN, path))
    return sorted(path for path in own if commit or _is_file(path))


def _is_file(path: str) -> bool:
    return (ROOT / path).is_file()


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def measure(commit: str, show: bool, longer: int) -> None:
    """Print per folder: sentences, their median and 90th percentile in words, dialect words."""
    lengths, words = defaultdict[str, list[int]](list), defaultdict[str, int](int)
    for path in paths(MEASURED, commit):
        source = _git("show", f"{commit}:{path}") if commit else (ROOT / path).read_text()
        key = f"{PurePosixPath(path).parent}/*{PurePosixPath(path).suffix}"
        found = dialect(path, source)
        here = sentences(path, source)
        lengths[key] += [one.words for one in here]
        words[key] += len(found)
        if show:
            print(*(f"{path}:{one.line}: {one.said} → {one.say}" for one in found), sep="\n")
        if longer:
            long = (one for one in here if one.words > longer)
            print(*(f"{path}:{one.line}: {one.words}: {one.text}" for one in long), sep="\n")
    print(f"{'folder':44} sentences  median  p90  over 20  dialect words")
    for suffix in TEXTS:
        keys = sorted(key for key in lengths if key.endswith(suffix) and lengths[key])
        rows = [(key, lengths[key], words[key]) for key in keys]
        everything = [count for _, counts, _ in rows for count in counts]
        rows.append((f"all *{suffix}", everything, sum(words[key] for key in keys)))
        for key, counts, dialect_words in rows:
            tenths = quantiles([*counts, *counts], n=10)
            over = sum(count > MOST_WORDS for count in counts) / len(counts)
            print(
                f"{key:44} {len(counts):9}  {tenths[4]:6.0f}  {tenths[8]:3.0f}  {over:7.0%}"
                f"  {dialect_words:13}"
            )


# The guards.


def test_no_dialect_comes_back() -> None:
    violations = list[str]()
    for path in paths(ROOMS):
        found = dialect(path, (ROOT / path).read_text())
        allowed, _ = EXCEPTIONS.get(path, (0, ""))
        if len(found) > allowed:
            violations += (f"{path}:{one.line}: {one.said!r}: write {one.say}" for one in found)
        elif len(found) < allowed:
            violations.append(f"{path}: has {len(found)} of {allowed}: lower EXCEPTIONS")
    expect_none(violations, f"{GLOSSARY} has the words; EXCEPTIONS may only shrink.")


def test_nine_of_ten_sentences_of_a_room_have_at_most_twenty_words() -> None:
    violations = list[str]()
    for room in ROOMS:
        found = [
            (path, one)
            for path in paths((room,))
            for one in sentences(path, (ROOT / path).read_text())
        ]
        long = [(path, one) for path, one in found if one.words > MOST_WORDS]
        if len(long) > len(found) / 10:
            violations += (f"{path}:{one.line}: {one.words} words" for path, one in long)
    expect_none(violations, "A tenth of the sentences of a room may have more than 20 words.")


def test_exceptions_are_of_files_that_exist() -> None:
    assert set(EXCEPTIONS) <= set(paths(ROOMS))


def test_the_glossary_is_short_and_sorted() -> None:
    page = (ROOT / GLOSSARY).read_text()
    rows = re.findall(r"^\| (\*{0,2}[^|*]+?\*{0,2}) \| ([^|]+) \|$", page, re.MULTILINE)
    terms = [term for term, _ in rows if term != "term"]
    assert 40 <= len(terms) <= 62
    assert terms == sorted(terms, key=str.casefold)
    assert len(set(terms)) == len(terms)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("A pod that somebody wants.", ["somebody"]),
        ("It is told `somebody`.", ["told"]),
        ("```\nsomebody\n```\nA request.", []),
        ("| module | does |\n|---|---|\n| `a` | somebody |\n\n| a | b |\n| c | anew |", ["anew"]),
        ("A [wake-up\nof](wake-up.md) a pod.", ["wake-up"]),
    ],
)
def test_prose_of_a_page_is_found_and_nothing_else(source: str, said: list[str]) -> None:
    assert [one.said for one in dialect("a.md", source)] == said


def test_docstrings_comments_and_logs_of_a_module_are_found_and_nothing_else() -> None:
    source = (
        '"""Told here."""\n\nsomebody = "anew"\n\n\ndef told() -> None:\n    # lest\n'
        '    log.info("heard %s", told)\n    use("whoever")\n'
    )
    assert sorted(one.said for one in dialect("a.py", source)) == ["Told", "heard", "lest"]


def test_sentences_are_counted_in_words() -> None:
    text = "One two three. A b.\n\n- One `two three` four five.\n\n| a | One two, three four |"
    assert [one.words for one in sentences("a.md", text)] == [3, 4, 4]


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--at", default="", metavar="COMMIT", help="read the texts of a commit")
    options.add_argument("--show", action="store_true", help="list each dialect word")
    options.add_argument("--longer", type=int, default=0, help="list sentences of more words")
    chosen = options.parse_args()
    measure(chosen.at, chosen.show, chosen.longer)
