from __future__ import annotations

import shutil
import sys
from pathlib import Path

from activator.lab.report import SWITCHES, ShownPod, guide
from activator.lab.switchboard import ALL_SWITCHES


def test_guide_names_all_that_can_be_asked():
    pods = [ShownPod("app-1", "127.0.0.11:8012", "127.0.0.11:8022")]
    text = "\n".join(
        row.plain
        for row in guide("127.0.0.1:1", "127.0.0.1:2", "/m", ["app", "other"], pods, {"Ready"})
    )
    for name in ("app", "other"):
        assert f"curl -H 'Host: {name}.default.svc.cluster.local' http://127.0.0.1:1/" in text
    commands = [line.split()[0] for line in text.splitlines() if "--admin-url" in line]
    installed = Path(sys.executable).with_name("activator")
    assert {Path(shutil.which(each) or "").resolve() for each in commands} == {installed.resolve()}
    assert "app-1" in text
    assert "http://127.0.0.11:8022/" in text
    assert "/m" in text


def test_switches_that_do_nothing_say_so():
    rows = guide("", "", "", [], [], {"Ready", "Running"})
    idle = [row.plain.split()[0] for row in rows if "no effect in this scenario" in row.plain]
    assert idle == ["/toggleLive", "/toggleExec", "/toggleSidecarReady", "/toggleSidecarLive"]


def test_each_switch_that_is_named_exists():
    assert {f"/toggle{name}" for name, _ in SWITCHES} == set(ALL_SWITCHES)
