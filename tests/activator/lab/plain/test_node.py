from __future__ import annotations

from activator.lab.addresses import PodPlace
from activator.lab.kubelet import KubeletReadiness, options_of, probes_of
from tests.rows import naming


def pod(**container):
    return {"metadata": {"name": "web-1"}, "spec": {"containers": [container]}}


def test_probe_of_the_object_becomes_a_probe_of_the_process():
    page = {"path": "/up", "port": "http", "scheme": "HTTP"}
    for probe, readiness in (
        ({"httpGet": page, "periodSeconds": 4}, KubeletReadiness.HTTP),
        ({"tcpSocket": {"port": 1}, "periodSeconds": 4}, KubeletReadiness.TCP),
        ({"exec": {"command": ["true"]}, "periodSeconds": 4}, KubeletReadiness.NONE),
    ):
        with naming(probe):
            found = probes_of(pod(readinessProbe=probe), 0.5)
            assert (found.readiness, found.period) == (readiness, 2.0)
            assert found.exec_readiness is ("exec" in probe)
            assert found.while_terminating
    assert probes_of(pod(readinessProbe={"httpGet": page}), 1.0).path == "/up"
    assert probes_of(pod(), 1.0).readiness is KubeletReadiness.NONE


def test_arguments_of_the_container_are_options_of_the_process():
    found = options_of(pod(args=["--start-after=0.5"]), PodPlace("127.0.0.9", 8012, 8022))
    assert (found.start_after, found.name, found.plain) == (0.5, "web-1", True)
    assert (found.address, found.port, found.admin_port) == ("127.0.0.9", 8012, 8022)
