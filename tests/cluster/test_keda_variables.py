"""Variables of the KEDA HTTP add-on, in the place of its interceptor: TLS and traces.

No program of KEDA or of the add-on runs.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path
from typing import Final

import httpx
import trustme

from tests.activator.telemetry.collector import attributes, http_collector
from tests.activator.tls.test_store import write
from tests.cluster.cluster import Cluster
from tests.cluster.http_add_on import (
    INTERCEPTOR,
    NAMESPACE,
    ORIGINAL,
    YAML,
    HttpAddOn,
    application,
)
from tests.cluster.http_add_on_objects import HTTP_SCALED_OBJECTS, http_scaled_object
from tests.cluster.network import NODE

#: A pod that speaks only TLS. Its arguments are its certificate and its key.
POD: Final = """
import http.server, ssl, sys
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(*sys.argv[1:3])
server = http.server.ThreadingHTTPServer(("", 8080), http.server.SimpleHTTPRequestHandler)
server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
"""


async def test_tls_chooses_the_certificate_and_traces_reach_a_collector(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    ca, host, store = trustme.CA(), f"web.{namespace}.example", tmp_path / "store"
    write(tmp_path, "tls.crt", "tls.key", "default.example", ca=ca)
    write(store, "web.crt", "web.key", host, ca=ca)
    write(tmp_path, "pod.crt", "pod.key", f"web.{namespace}", ca=ca)
    (authorities := tmp_path / "authorities").mkdir()
    ca.cert_pem.write_to_path(str(authorities / "ca.pem"))
    files = [str(tmp_path / name) for name in ("pod.crt", "pod.key")]
    cluster.image("tls", [sys.executable, "-c", POD, *files])
    for image in ORIGINAL.values():
        name = image.rpartition("/")[2].partition(":")[0]
        cluster.image(name, [str(Path(sys.prefix, "bin", "activator"))])
    add_on = HttpAddOn(cluster)
    await cluster.uninstall()
    keda = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    # KEDA's may still end.
    await cluster.run("kubectl", "delete", "namespace", NAMESPACE, "--ignore-not-found")
    await cluster.apply(keda, HTTP_SCALED_OBJECTS)
    web = application(namespace, "web", replicas=1, image="example.com/tls")
    await cluster.apply(*web, http_scaled_object(namespace, "web"))
    await cluster.kubectl("apply", "-f", YAML)
    client = ssl.create_default_context(cadata=ca.cert_pem.bytes().decode())
    with http_collector(NODE) as collector:
        variables = {
            "KEDA_HTTP_PROXY_TLS_ENABLED": "true",
            "KEDA_HTTP_PROXY_TLS_CERT_PATH": tmp_path / "tls.crt",
            "KEDA_HTTP_PROXY_TLS_KEY_PATH": tmp_path / "tls.key",
            "KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS": store,
            "KEDA_HTTP_TLS_CA_DIRS": authorities,
            "OTEL_EXPORTER_OTLP_TRACES_ENABLED": "true",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        }
        given = (f"{name}={value}" for name, value in variables.items())
        await cluster.kubectl("-n", NAMESPACE, "set", "env", f"deployment/{INTERCEPTOR}", *given)
        await add_on.rolled_out()
        await add_on.one_interceptor()
        await add_on.known(namespace, "web")
        (ip,) = await add_on.interceptors()
        async with httpx.AsyncClient(verify=client, headers={"Host": host}, timeout=30) as https:
            for name in (host, "default.example"):
                of = {"sni_hostname": name}  # the client verifies the certificate for this name
                response = await https.get(f"https://{ip}:8443/", extensions=of)
                assert "Directory listing" in response.text
        spans = await asyncio.to_thread(collector.spans)
    served = next(attributes(span) for span in spans if span.kind == span.SPAN_KIND_SERVER)
    assert (served["url.scheme"], served["server.address"]) == ("https", host)
    await add_on.remove()
