"""The command line as users meet it: exit statuses, messages, help."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import respx

from activator.cli import main as cli
from activator.lab import command as lab_command
from activator.scale import settings as scale_settings
from activator.settings.config import SETTINGS, Settings, settings_of
from tests.activator.settings.test_add_on import CHART, OLD
from tests.rows import in_one_test

SERVERS = ("run", "local", "demo")
KNATIVE = {"POD_NAME": "activator-x", "POD_IP": "10.0.0.9", "SYSTEM_NAMESPACE": "knative-serving"}


class App(ModuleType):
    """Replace activator.app, and record its arguments."""

    def __init__(self) -> None:
        super().__init__("activator.app")
        self.started: list[Settings] = []
        self.status = 0
        self.error: BaseException | None = None

    def main(self, settings: Settings, *, wakes_all: bool = False) -> int:
        self.started.append(settings)
        if self.error:
            raise self.error
        return self.status


@pytest.fixture
def app(monkeypatch):
    monkeypatch.setitem(sys.modules, "activator.app", stand_in := App())
    return stand_in


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for row in {row.variable for command in SERVERS for row in settings_of(command)}:
        monkeypatch.delenv(row, raising=False)
    for setting in scale_settings.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.delenv("ACTIVATOR_ADMIN_URL", raising=False)


def test_run_starts_with_knatives_environment(app, monkeypatch):
    for name, value in KNATIVE.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["run", "--http-port", "0"]) == 0
    (settings,) = app.started
    assert (settings.command, settings.http_port, settings.pod_name) == ("run", 0, "activator-x")


def test_local_takes_its_folder_and_passes_the_apps_status_on(app, tmp_path):
    app.status = 1
    assert cli.main(["local", "--manifests", str(tmp_path)]) == 1
    assert app.started[0].manifests == tmp_path


def test_demo_needs_nothing(app):
    assert cli.main(["demo"]) == 0
    assert app.started[0].bind == "127.0.0.1"


def test_all_wrong_settings_are_reported_and_nothing_starts(app, capsys):
    assert cli.main(["run", "--http-port", "80x", "--pod-ip", "here"]) == 2
    captured = capsys.readouterr()
    assert app.started == []
    assert captured.out == ""
    assert "activator run: 4 settings are wrong or missing" in captured.err
    for part in ("--http-port", "'80x'", "--pod-ip", "POD_NAME", "SYSTEM_NAMESPACE"):
        assert part in captured.err


@pytest.mark.parametrize("command", ["run", "demo", "scale", "status", "explain"])
def test_an_unknown_variable_is_named_with_the_nearest_one(app, command, capsys, monkeypatch):
    """Also by a command that does not read the nearest one."""
    monkeypatch.setenv("ACTIVATOR_QUEUE_DEPHT", "10")
    monkeypatch.setenv("ACTIVATOR_COLOUR", "red")
    # Variables of another command, and variables that kubelet writes for Services.
    monkeypatch.setenv("ACTIVATOR_SCALER_ADMIN_URL", "")
    for name in ("SERVICE_HOST", "SERVICE_PORT_HTTP_ADMIN", "PORT_80_TCP_ADDR", "PORT_80_TCP"):
        monkeypatch.setenv(f"ACTIVATOR_SERVICE_{name}", "10.96.0.1")
    monkeypatch.setenv("ACTIVATOR_SERVICE_PORT", "tcp://10.96.0.1:80")
    monkeypatch.setenv("ACTIVATOR_STAT_PORT", "8081")
    monkeypatch.setenv("KEDA_HTTP_READINES_TIMEOUT", "5s")
    for name, value in {**CHART, **OLD}.items():
        if name != "KEDA_HTTP_PROXY_PORT":  # it would choose the dialect keda
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("KEDA_HTTP_ADD_ON_INTERCEPTOR_PROXY_SERVICE_HOST", "10.96.0.2")
    monkeypatch.setenv("KEDA_HTTP_ADD_ON_INTERCEPTOR_PROXY_PORT", "tcp://10.96.0.2:8080")
    cli.main([command, "--no-such-flag"])
    assert "environment variable" not in capsys.readouterr().err
    more = {"scale": ["--stat-port", "x"], "explain": ["hello"]}
    cli.main([command, *more.get(command, [])])
    texts = [each for each in capsys.readouterr().err.splitlines() if "is unknown" in each]
    what = f"activator {command}: environment variable"
    assert texts == [
        f"{what} ACTIVATOR_COLOUR is unknown and has no effect",
        f"{what} ACTIVATOR_QUEUE_DEPHT is unknown and has no effect; did you mean "
        "ACTIVATOR_QUEUE_DEPTH?",
        f"{what} KEDA_HTTP_READINES_TIMEOUT is unknown and has no effect; did you mean "
        "KEDA_HTTP_READINESS_TIMEOUT?",
    ]


def test_an_empty_flag_turns_the_autoscaler_off(app, tmp_path, monkeypatch):
    monkeypatch.setenv("ACTIVATOR_AUTOSCALER_URL", "ws://127.0.0.1:1")
    assert cli.main(["local", "--manifests", str(tmp_path), "--autoscaler-url", ""]) == 0
    assert app.started[0].autoscaler_url == ""


def test_ctrl_c_ends_without_a_traceback(app, capsys):
    app.error = KeyboardInterrupt()
    assert cli.main(["demo"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("args", [["serve"], ["local", "--prot", "1"], ["status", "extra"]])
def test_misuse_is_status_2_and_points_to_help(args, capsys):
    assert cli.main(args) == 2
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize("command", [*SERVERS, "status", "explain"])
def test_help_teaches(command, capsys):
    assert cli.main([command, "--help"]) == 0
    printed = capsys.readouterr().out
    for row in settings_of(command):
        assert row.flag in printed
        assert row.variable in printed
        assert f"{row.section}:" in printed
    assert "Exit status:" in printed
    assert f"activator {command}" in printed


def test_help_of_the_scaler_teaches(capsys):
    assert cli.main(["scale", "--help"]) == 0
    printed = capsys.readouterr().out
    for row in scale_settings.SETTINGS:
        assert row.flag in printed
        assert row.variable in printed
        assert f"{row.section}:" in printed
    assert "activator.dev/enabled" in printed


def test_wrong_settings_of_the_scaler_are_reported_at_once(capsys):
    assert cli.main(["scale", "--stat-port", "80x", "--takeover-ports", "9-5"]) == 2
    printed = capsys.readouterr().err
    assert "activator scale: 3 settings are wrong or missing" in printed
    for part in ("--stat-port", "'80x'", "--takeover-ports", "'9-5'", "SYSTEM_NAMESPACE"):
        assert part in printed


@pytest.mark.untraced
@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("command", [*SERVERS, "status", "explain", "lab", "scale"])
def test_help_breaks_no_line_within_a_word(command, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.main([command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if re.search(r"\w-$", line)] == []
    assert "\u2011" not in "".join(lines)


def test_help_of_one_command_does_not_offer_what_it_ignores(capsys):
    assert cli.main(["run", "-h"]) == 0
    assert "--manifests" not in capsys.readouterr().out


def test_the_first_page_names_each_command(capsys):
    assert cli.main(["--help"]) == 0
    printed = capsys.readouterr().out
    for command in cli.cli.commands:
        assert f"activator {command} " in printed


def test_the_list_of_commands_cuts_no_sentence(capsys):
    assert cli.main(["--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_help_imports_nothing_heavy():
    check = (
        "import sys; from activator.cli.main import main; status = main(['local', '--help']);"
        "heavy = {'httpx', 'rich', 'uvicorn', 'starlette', 'kubernetes_asyncio',"
        " 'asyncio', 'yaml', 'activator.app'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@in_one_test("command", sorted(cli.cli.commands))
def test_the_reference_tells_the_same_exit_statuses(command):
    page = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
    assert f"### `activator {command}`\n" in page
    section = page.split("### Exit statuses\n")[1].split("\n##")[0]
    listed = {
        (status, meaning)
        for status, commands, meaning in re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", section, re.M)
        if command in commands.split(", ")
    }
    epilog = cli.cli.commands[command].epilog or ""
    statuses = re.findall(r"^ +(\d+)  (.+)$", epilog, re.MULTILINE)
    assert listed == set(statuses) != set()


URL = "http://127.0.0.1:18080"
ANSWER = '{"revisions": [], "activator": {"podName": "x"}}'


@respx.mock
def test_status_prints_columns_or_the_raw_response(capsys):
    respx.get(URL + "/api/v1/revisions").respond(text=ANSWER)
    assert cli.main(["status", "--admin-url", URL]) == 0
    assert capsys.readouterr().out.split() == [
        "REVISION",
        "PODS",
        "IN-FLIGHT",
        "QUEUED",
        "OLDEST-WAITER",
        "STATE",
    ]
    assert cli.main(["status", "--admin-url", URL, "--json"]) == 0
    assert capsys.readouterr().out == ANSWER + "\n"


@respx.mock
def test_status_asks_where_the_environment_says(monkeypatch):
    monkeypatch.setenv("ACTIVATOR_ADMIN_URL", URL)
    route = respx.get(URL + "/api/v1/revisions").respond(text=ANSWER)
    assert cli.main(["status"]) == 0
    assert route.called


@respx.mock
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_status_of_something_else_is_1(options, capsys):
    respx.get(URL + "/api/v1/revisions").respond(text="<html>")
    assert cli.main(["status", "--admin-url", URL, *options]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "not an activator's admin port" in captured.err


def test_status_without_an_activator_exits_with_3(capsys):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert cli.main(["status", "--admin-url", url]) == 3
    assert url in capsys.readouterr().err


def test_lab_lists_what_there_is(capsys):
    assert cli.main(["lab", "--list"]) == 0
    assert "exec-readiness" in capsys.readouterr().out


@pytest.mark.parametrize("args", [["99"], ["1", "--keep", "--json"], ["--keep"]])
def test_lab_refuses_what_it_cannot_do(args, capsys):
    assert cli.main(["lab", *args]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "activator lab --help" in captured.err


def test_lab_passes_on_what_it_is_asked(monkeypatch):
    asked = []

    def run(*args, **kwargs):
        asked.append((args, kwargs))
        return 1

    monkeypatch.setattr(lab_command, "run", run)
    assert cli.main(["lab", "1", "drain", "--json"]) == 1
    assert asked == [((("1", "drain"),), {"keep": False, "as_json": True})]


HELLO = (
    '{"namespace": "default", "name": "hello-00001", "capacity": 0, "inFlight": 0, "queued": 0,'
    ' "pods": []}'
)
NOT_FOUND: dict[str, Any] = {
    "status_code": 404,
    "headers": {"Content-Type": "application/problem+json"},
}


@pytest.mark.untraced
@respx.mock
@pytest.mark.parametrize(
    ("words", "namespace"),
    [
        (["hello-00001"], "default"),
        (["default/hello-00001"], "default"),
        (["hello-00001", "-n", "shop"], "shop"),
    ],
)
def test_explain_prints_a_page_or_the_raw_response(words, namespace, capsys):
    respx.get(f"{URL}/api/v1/revisions/{namespace}/hello-00001").respond(text=HELLO)
    respx.get(f"{URL}/api/v1/activator").respond(**NOT_FOUND)
    assert cli.main(["explain", *words, "--admin-url", URL]) == 0
    assert capsys.readouterr().out.startswith("default/hello-00001: no request waits")
    assert cli.main(["explain", *words, "--admin-url", URL, "--json"]) == 0
    assert capsys.readouterr().out == HELLO + "\n"


@pytest.mark.untraced
@respx.mock
@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        *((each, each) for each in ("revision", "service", "http-route", "fallback")),
        *((each, "http-route") for each in ("HTTPScaledObject", "InterceptorRoute")),
    ],
)
def test_explain_asks_for_one_kind(kind: str, asked: str) -> None:
    found = respx.get(f"{URL}/api/v1/revisions/default/web", params={"kind": asked})
    found.respond(text=HELLO)
    respx.get(f"{URL}/api/v1/activator").respond(**NOT_FOUND)
    assert cli.main(["explain", "web", "--kind", kind, "--admin-url", URL]) == 0
    assert found.called


@respx.mock
def test_explain_prints_the_problem_of_a_server_that_fails(capsys):
    problem = {**NOT_FOUND, "status_code": 500, "text": '{"detail": "its log has the error."}'}
    respx.get(f"{URL}/api/v1/revisions/default/hello").respond(**problem)
    assert cli.main(["explain", "hello", "--admin-url", URL]) == 1
    assert capsys.readouterr().err == (
        f"activator explain: {URL}/api/v1/revisions/default/hello: its log has the error.\n"
    )


@respx.mock
def test_explain_of_a_revision_that_is_not_known_is_4_and_offers_others(capsys):
    respx.get(f"{URL}/api/v1/revisions/default/hello").respond(**NOT_FOUND)
    respx.get(f"{URL}/api/v1/revisions").respond(text=f'{{"revisions": [{HELLO}]}}')
    respx.get(f"{URL}/api/v1/activator").respond(**NOT_FOUND)
    assert cli.main(["explain", "hello", "--admin-url", URL]) == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "knows no revision, Service or route object default/hello." in captured.err
    assert "Did you mean default/hello-00001?" in captured.err


def test_explain_of_no_revision_at_all_is_2(capsys):
    assert cli.main(["explain", "a/b/c"]) == 2
    assert "expected NAMESPACE/REVISION or REVISION, got 'a/b/c'" in capsys.readouterr().err
    assert cli.main(["explain"]) == 2


@respx.mock
@pytest.mark.parametrize("words", [["status"], ["explain", "hello-00001"]])
def test_ctrl_c_ends_a_watch_quietly_with_130(words, capsys, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("activator.console.screen.sleep", interrupt)
    respx.get(f"{URL}/api/v1/revisions").respond(text=f'{{"revisions": [{HELLO}]}}')
    respx.get(f"{URL}/api/v1/revisions/default/hello-00001").respond(text=HELLO)
    respx.get(f"{URL}/api/v1/activator").respond(**NOT_FOUND)
    assert cli.main([*words, "--watch", "--admin-url", URL]) == 130
    captured = capsys.readouterr()
    assert "default/hello-00001" in captured.out
    assert captured.err.strip() == ""


@pytest.mark.parametrize("name", ["no-endpoints", "two-owners", "ActivatorColdStartsFail"])
def test_the_page_of_a_reason_or_an_alert_is_printed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reason", name]) == 0
    assert capsys.readouterr().out.startswith(f"# {name}\n")


def test_without_a_name_all_reasons_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reason"]) == 0
    assert "no-event-stream" in capsys.readouterr().out
    assert cli.main(["reason", "../README"]) == 2
    assert "`activator reason` lists all reasons of the activator" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("pods-not-redy", "did you mean pods-not-ready?"),
        ("two-owner", "did you mean two-owners?"),
        ("nothing", "`activator reason why-is-my-service-not-scaled` those of the scaler"),
    ],
)
def test_an_unknown_reason_has_a_hint(
    name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reason", name]) == 2
    assert hint in " ".join(capsys.readouterr().err.split())


# -- in the Deployment of the KEDA HTTP add-on's interceptor -----------------------------------

ZAP = ["--zap-log-level=info", "--zap-encoder=json", "--zap-time-encoding=rfc3339"]


@pytest.fixture
def _add_on(monkeypatch):
    for row in SETTINGS:
        for variable in row.add_on.split():
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("KEDA_HTTP_PROXY_PORT", "8080")
    monkeypatch.setenv("KEDA_HTTP_ADMIN_PORT", "9090")


@pytest.mark.usefixtures("_add_on")
@pytest.mark.parametrize(
    ("words", "level", "form"),
    [
        ([], "info", "auto"),
        (ZAP, "info", "json"),
        (["--zap-log-level", "error", "-zap-encoder=console"], "error", "console"),
        (["--zap-log-level=2", "--zap-stacktrace-level=error", "--zap-devel"], "debug", "auto"),
        (["--zap-log-level=panic"], "error", "auto"),
        (["run", "--zap-log-level=debug", "--log-level=warning"], "warning", "auto"),
    ],
)
def test_in_place_of_the_interceptor_it_runs_with_the_arguments_of_zap(app, words, level, form):
    assert cli.main(words) == 0
    (settings,) = app.started
    assert (settings.command, settings.dialect) == ("run", ("keda",))
    assert (settings.log_level, settings.log_format) == (level, form)


@pytest.mark.usefixtures("_add_on")
def test_the_own_variable_wins_over_an_argument_of_zap(app, monkeypatch):
    monkeypatch.setenv("ACTIVATOR_LOG_LEVEL", "error")
    assert cli.main(ZAP) == 0
    assert app.started[0].log_level == "error"


@pytest.mark.usefixtures("_add_on")
def test_in_place_of_the_interceptor_other_commands_stay(app, capsys):
    assert cli.main(["--help"]) == 0
    assert "First steps" in capsys.readouterr().out
    assert cli.main(["run", "--zap-log-level=loud"]) == 2
    assert (
        "log_level (from flag --zap-log-level): 'loud' is not accepted" in capsys.readouterr().err
    )


@pytest.mark.usefixtures("_add_on")
def test_a_variable_of_the_interceptor_without_effect_is_named(app, capsys, monkeypatch):
    monkeypatch.setenv("PROFILING_BIND_ADDRESS", "127.0.0.1:6060")
    assert cli.main([]) == 0
    assert "PROFILING_BIND_ADDRESS has no effect" in capsys.readouterr().err


def test_elsewhere_the_arguments_of_zap_are_unknown(capsys, monkeypatch):
    monkeypatch.delenv("KEDA_HTTP_PROXY_PORT", raising=False)
    assert cli.main(ZAP) == 2
    assert "--zap-log-level" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("level", "encoder", "expected"),
    [
        ("info", "console", ("info", "console")),
        ("3", "json", ("debug", "json")),
        ("panic", "json", ("error", "json")),
    ],
)
def test_the_arguments_of_the_add_ons_scaler_are_those_of_scale(
    monkeypatch, level, encoder, expected
):
    """The Deployment of the KEDA HTTP add-on has options of zap, and no command."""
    stand_in = App()
    monkeypatch.setitem(sys.modules, "activator.scale.app", stand_in)
    monkeypatch.setenv("KEDA_HTTP_SCALER_PORT", "9090")
    monkeypatch.setenv("KEDA_HTTP_SCALER_TARGET_ADMIN_NAMESPACE", "keda")
    monkeypatch.setenv("KEDA_HTTP_SCALER_TARGET_ADMIN_SERVICE", "admin")
    zap = (f"--zap-log-level={level}", f"--zap-encoder={encoder}", "--zap-time-encoding=rfc3339")
    assert cli.main([*zap, "--zap-stacktrace-level=error"]) == 0
    (settings,) = stand_in.started
    assert settings.dialect == ("keda",)
    assert (settings.log_level, settings.log_format) == expected
    assert cli.main(["version"]) == 0  # a command is what it was


@pytest.mark.parametrize(("words", "expected"), [((), False), (("--wake-all",), True)])
def test_the_scaler_can_wake_all_workloads_and_end(monkeypatch, words, expected):
    asked = []
    scaler = ModuleType("activator.scale.app")

    def run(settings, *, wakes_all):
        asked.append(wakes_all)
        return 1

    monkeypatch.setattr(scaler, "main", run, raising=False)
    monkeypatch.setitem(sys.modules, "activator.scale.app", scaler)
    monkeypatch.setenv("SYSTEM_NAMESPACE", "activator-system")
    assert cli.main(["scale", *words]) == 1
    assert asked == [expected]
