"""Pages name only existing things: pages, sections, settings, metrics, targets of make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml
from click import Context

from activator.cli.main import cli
from activator.plain.service import parse as parse_service
from activator.scale.external_metrics import METRIC
from activator.scale.families import FAMILIES as SCALE_FAMILIES
from activator.scale.settings import SETTINGS as SCALE_SETTINGS
from activator.settings.config import SETTINGS, load
from activator.settings.values import METRICS_PORT, OPTIONAL_PORT, PORT
from activator.telemetry.families import FAMILIES
from tests.guards import expect_none

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
#: Names that look like metrics and are none.
SPANS = {"activator_proxy"}
#: Metrics that the changelog names, and that a version has removed.
REMOVED = {"activator_request_log_dropped_total"}
#: Variables that a build reads, not the program.
OF_THE_BUILD = {"ACTIVATOR_COMPILE"}
#: Paths in the pages that are patterns, or that a command creates.
MADE = {"docs/reasons/WORD.md", "benchmarks/results/"}
FILE = r"`((?:activator|throttler|tests|docs|benchmarks|manifests)/[\w./-]*[\w/])`"
CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def anchors(page: Path) -> set[str]:
    """Return the sections of a page, as GitHub derives links from headings."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def lines(page: Path, pattern: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield ``page:line`` and the match of each place where a pattern occurs on a line."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for found in re.finditer(pattern, line):
            yield f"{name(page)}:{number}", found


def without_code(page: Path) -> str:
    """Return a page with its blocks of code emptied; line numbers stay the same."""
    return CODE.sub(lambda found: "\n" * found[0].count("\n"), page.read_text())


def test_links_lead_somewhere() -> None:
    expect_none(finding for page in PAGES for finding in _dead_links(page))


def _dead_links(page: Path) -> Iterator[str]:
    for number, line in enumerate(without_code(page).splitlines(), 1):
        for link in re.findall(r"\]\(([^)\s]+)\)", line):
            if "://" in link:
                continue
            path, _, section = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                yield f"{name(page)}:{number}: {link}: no such file"
            elif section and section not in anchors(target):
                yield f"{name(page)}:{number}: {link}: no such section"


def test_files_exist() -> None:
    expect_none(
        f"{where}: {found[1]}: no such file"
        for page in PAGES
        for where, found in lines(page, FILE)
        if found[1] not in MADE and not (ROOT / found[1]).exists()
    )


def test_files_that_architecture_names_exist() -> None:
    page, roots = DOCS / "architecture.md", (ROOT, ROOT / "activator", ROOT / "activator/proxy")
    expect_none(
        f"{where}: {found[1]}: no such file"
        for where, found in lines(page, r"`([a-z_]\w*/[\w/]+\.py)`")
        if not any((root / found[1]).exists() for root in roots)
    )


def test_settings_exist() -> None:
    known = {row.variable for row in (*SETTINGS, *SCALE_SETTINGS)} | OF_THE_BUILD
    expect_none(
        f"{place}: {found[0]} is no setting"
        for page in PAGES
        for place, found in lines(page, r"\bACTIVATOR_[A-Z0-9_]*[A-Z0-9]\b(?!_)")
        if not any(variable.startswith(found[0]) for variable in known)
    )


def test_metrics_exist() -> None:
    known = {family.name for family in (*FAMILIES, *SCALE_FAMILIES)} | SPANS | REMOVED | {METRIC}
    expect_none(
        f"{place}: {found[0]} is no metric"
        for page in PAGES
        for place, found in lines(page, r"\b(?:activator|kn_activator)_[a-z_]+[a-z]\b")
        if re.sub(r"_(bucket|sum|count)$", "", found[0]) not in known
    )


def test_makes_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    expect_none(
        f"{place}: make has no target {found[1]}"
        for page in PAGES
        for place, found in lines(page, r"`(?:sudo )?make ([a-z-]+)")
        if found[1] not in targets
    )


def test_commands_have_the_options_that_are_shown() -> None:
    expect_none(finding for page in PAGES for finding in _unknown_options(page))


def _unknown_options(page: Path) -> Iterator[str]:
    command = rf"\bactivator ({'|'.join(cli.commands)})\b([^`\n|#]*)"
    for place, found in lines(page, command):
        shown = cli.commands[found[1]]
        known = {
            option
            for each in shown.get_params(Context(shown, help_option_names=[]))
            for option in each.opts
        }
        said = set(re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", found[2]))
        for option in sorted(said - known - {"--help"}):
            yield f"{place}: activator {found[1]} has no option {option}"


# Pages for operators.


def test_the_way_in_leads_to_each_how_to() -> None:
    ways = set(re.findall(r"\]\(([\w-]+\.md)", (DOCS / "how-to" / "operate.md").read_text()))
    pages = {page.name for page in (DOCS / "how-to").glob("*.md")}
    assert ways == pages - {"operate.md"}


def test_each_policy_is_shown_on_a_plain_service_first() -> None:
    """The examples of these pages are accepted as they are, for readers without Knative."""
    table = (DOCS / "how-to" / "operate.md").read_text().partition("## Policies of a service")[2]
    rows = re.findall(r"^\|.*\]\(([\w-]+\.md)\) \|$", table.partition("\n## ")[0], re.M)
    pages = {*rows, "admission.md", "grpc.md"}
    assert {"balance.md", "waiting-page.md"} <= pages
    expect_none(finding for page in sorted(pages) for finding in _unlike_a_service(page))


def _unlike_a_service(page: str) -> Iterator[str]:
    blocks = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "how-to" / page).read_text(), re.M | re.S)
    objects = [
        obj for block in blocks for obj in yaml.load_all(block, yaml.CSafeLoader) if "kind" in obj
    ]
    if not objects or objects[0]["kind"] != "Service" or objects[0]["apiVersion"] != "v1":
        yield f"{page}: its first object is no plain Service"
    for obj in objects:
        if obj["apiVersion"] == "v1" and obj["kind"] == "Service":
            service = parse_service(obj)
            if service is None or any("unknown" in each for each in service.warnings):
                yield f"{page}: {obj['metadata']['name']} is not annotated, or wrongly"


def test_the_threat_model_has_each_port() -> None:
    text = (DOCS / "threat-model.md").read_text()
    table = text.partition("<!-- ports -->")[2].partition("<!-- /ports -->")[0]
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (\S+ \w+|127\.0\.0\.1)", table, re.MULTILINE)
    environ = {"POD_NAME": "a", "POD_IP": "10.0.0.1", "SYSTEM_NAMESPACE": "knative-serving"}
    settings = load("run", {}, environ, resolv_conf=Path("/nowhere"))
    kinds = (PORT, METRICS_PORT, OPTIONAL_PORT)
    ports = [row for row in SETTINGS if row.kind in kinds and row.name != "admit_port"]
    assert {(variable, int(port)) for port, variable, _ in rows} == {
        (row.variable, getattr(settings, row.name)) for row in ports
    }
    local = {variable for _, variable, where in rows if where == settings.admin_bind}
    assert local == {"ACTIVATOR_ADMIN_PORT"}
    assert (settings.bind, settings.metrics_bind) == ("0.0.0.0", "0.0.0.0")


def _as_pages_write_it(value: str) -> str:
    """Return a default as the pages write it: 10000 as 10,000, 64KiB as 64 KiB."""
    number, unit = re.fullmatch(r"(\d+)(\w*)", value).groups()  # type: ignore[union-attr] # it is
    return f"{int(number):,} {unit}".strip()


def test_bounds_are_the_defaults() -> None:
    """The column of bounds has the defaults of the settings in the same row, in order."""
    defaults = {row.variable: row.default_of("run") for row in SETTINGS}
    compared = 0
    table = (DOCS / "threat-model.md").read_text().partition("## Exhaustion")[2]
    for line in table.splitlines():
        cells = line.split("|")
        variables = re.findall(r"`([A-Z_]+)`", cells[3]) if len(cells) > 4 else []
        said = re.findall(r"\d[\d,]*(?: (?:[KM]iB|s\b))?", cells[2]) if variables else []
        known = [_as_pages_write_it(str(defaults[variable])) for variable in variables]
        assert said[: len(known)] == known
        compared += len(known)
    assert compared >= 6


def test_git_ignores_what_the_how_tos_save() -> None:
    """After the steps of a page, a clone has no untracked files."""
    text = "".join(page.read_text() for page in PAGES)
    saved = set(re.findall(r"[Ss]ave (?:this|it) as `([^`]+)`", text))
    saved |= set(re.findall(r"curl [^\n]*-c (\w+)", text))
    assert {"objects/hello.yaml", "auth.py", "jar"} <= saved
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    roots = {re.sub(r"/.*", "/", path) for path in saved}
    expect_none(root for root in roots if f"/{root}" not in ignored)
