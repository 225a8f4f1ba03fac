"""Process metrics come from a registry of their own."""

from __future__ import annotations

import os

from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from activator.telemetry.process import ProcessMetrics


def families(metrics):
    return {family.name: family for family in text_string_to_metric_families(metrics.render())}


def test_memory_cpu_and_descriptors_are_those_of_this_process():
    found = families(ProcessMetrics())
    (memory,) = found["process_resident_memory_bytes"].samples
    (open_fds,) = found["process_open_fds"].samples
    (cpu,) = found["process_cpu_seconds"].samples
    assert 10 << 20 < memory.value < 8 << 30
    assert abs(open_fds.value - len(os.listdir("/proc/self/fd"))) <= 1
    assert 0 < cpu.value <= sum(os.times()[:2]) + 0.1


def test_what_others_count_in_the_default_registry_does_not_show():
    Counter("somebody_elses", "Not ours.")
    assert "somebody_elses" not in families(ProcessMetrics())


def test_two_of_them_do_not_collide():
    ProcessMetrics()
    assert "python_info" in families(ProcessMetrics())
