"""One setting: flag before environment before default, and complete error texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from activator.settings import setting, values
from activator.settings.config import Settings, load
from activator.settings.setting import REQUIRED, Derived, Sources
from tests.activator.settings.reference import markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class Toy:
    command: str
    port: int = setting.setting(values.PORT, "TOY_PORT", "A", "80", "Door.", "Old.", demo="81")
    name: str = setting.setting(
        values.NAME, "TOY_NAME", "B", REQUIRED, "Name.", "None.", commands=("run",), local="toy"
    )
    url: str = setting.setting(
        values.TEXT,
        "TOY_URL",
        "B",
        Derived("from the port", lambda sources: f"at:{sources.known['port']}"),
        "Where.",
        "So.",
        empty_is_value=True,
    )


PORT, NAME, URL = setting.rows(Toy)


def sources(command="run", flags=None, known=None, **environ):
    return Sources(command, flags or {}, environ, Path("/nowhere"), known or {})


def test_rows_come_in_order_with_their_names():
    assert [row.name for row in setting.rows(Toy)] == ["port", "name", "url"]
    assert [row.flag for row in setting.rows(Toy)] == ["--port", "--name", "--url"]


def test_flag_wins_over_environment_over_default():
    assert setting.find(PORT, sources(flags={"port": "1"}, TOY_PORT="2")) == 1
    assert setting.find(PORT, sources(flags={"port": None}, TOY_PORT="2")) == 2
    assert setting.find(PORT, sources()) == 80


def test_defaults_differ_by_command():
    found = {command: setting.find(PORT, sources(command)) for command in setting.COMMANDS}
    assert found == dict.fromkeys(setting.COMMANDS, 81) | {"run": 80, "local": 80}


def test_an_empty_variable_counts_as_not_set_except_where_empty_means_something():
    assert setting.find(PORT, sources(TOY_PORT="")) == 80
    assert setting.find(URL, sources(TOY_URL="")) == ""


def test_an_empty_flag_is_a_value():
    with pytest.raises(ValueError, match=r"port \(from flag --port\): ''"):
        setting.find(PORT, sources(flags={"port": ""}))


def test_a_command_does_not_read_what_is_not_its_own():
    assert setting.find(NAME, sources("local", TOY_NAME="other")) == "toy"


def test_a_derived_default_sees_the_values_above_it():
    assert setting.find(URL, sources(known={"port": 7})) == "at:7"


def test_a_wrong_value_is_named_with_its_source_and_what_is_accepted():
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        setting.find(PORT, sources(TOY_PORT="80x"))
    assert str(caught.value) == (
        "port (from environment variable TOY_PORT): '80x' is not accepted; "
        "accepted is a port number from 0 to 65535, where 0 picks a free one."
    )


def test_a_variable_that_kubernetes_made_for_a_service_is_recognised():
    with pytest.raises(ValueError, match="enableServiceLinks: false"):
        setting.find(PORT, sources(TOY_PORT="tcp://10.0.0.7:80"))


def test_a_missing_value_says_how_to_give_it():
    with pytest.raises(ValueError, match="pass flag --name or set environment variable TOY_NAME"):
        setting.find(NAME, sources())


def test_an_endless_value_is_echoed_in_part():
    with pytest.raises(ValueError, match="not accepted") as caught:
        setting.find(PORT, sources(TOY_PORT="8" * 100_000))
    assert len(str(caught.value)) < 600


def test_a_long_path_is_echoed_whole():
    path = "/folder" * 40
    with pytest.raises(ValueError, match=path):
        setting.find(PORT, sources(TOY_PORT=path))


def test_markdown_has_a_table_for_each_section_and_tells_defaults_apart():
    text = markdown(setting.rows(Toy))
    assert text.count("### ") == 2
    assert "run, local: 80; demo: 81" in text
    assert "| `--name` NAME<br>`TOY_NAME` | required<br>None. | Name. | run |" in text
    assert "| from the port<br>" in text


def test_all_wrong_settings_are_one_error_and_contradictions_come_after_them():
    def refuse(known):
        return [f"{known['port']} contradicts {known['name']}"]

    wrong = sources(flags={"port": "x"})
    with pytest.raises(setting.ConfigError) as caught:
        setting.find_all([PORT, NAME], wrong, refuse)
    assert [problem.split(" ")[0] for problem in caught.value.problems] == ["port", "name"]
    with pytest.raises(setting.ConfigError, match=r"^80 contradicts toy$"):
        setting.find_all([PORT, NAME], sources(flags={"name": "toy"}), refuse)
    found = setting.find_all(setting.rows(Toy), sources(flags={"name": "toy"}), lambda known: [])
    assert found == {"port": 80, "name": "toy", "url": "at:80"}


KNATIVE = {"POD_NAME": "activator-x", "POD_IP": "10.0.0.9", "SYSTEM_NAMESPACE": "knative-serving"}
NOWHERE = Path("/nowhere/resolv.conf")


def run(resolv_conf=NOWHERE, **environ) -> Settings:
    return load("run", {}, KNATIVE | environ, resolv_conf=resolv_conf)


@pytest.mark.parametrize(
    ("lines", "domain"),
    [
        ("search default.svc.example.org svc.example.org example.org\n", "example.org"),
        ("nameserver 10.0.0.1\nsearch svc.corp.\n", "corp"),
        ("search example.org\n", "cluster.local"),
        ("#search svc.no.org\n", "cluster.local"),
        ("search svc. svc.!! svc.b\n", "b"),
        ("", "cluster.local"),
        ("\udcff", "cluster.local"),
    ],
)
def test_the_cluster_domain_is_what_the_kubelet_wrote(tmp_path, lines, domain):
    path = tmp_path / "resolv.conf"
    path.write_bytes(lines.encode(errors="surrogateescape"))
    assert run(resolv_conf=path).cluster_domain == domain
    assert run(resolv_conf=path).autoscaler_url.endswith(f".svc.{domain}:8080")


def test_the_environment_names_the_domain_even_without_resolv_conf():
    assert run(CLUSTER_DOMAIN="corp.example.").cluster_domain == "corp.example"
