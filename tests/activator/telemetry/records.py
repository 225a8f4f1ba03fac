"""Ended requests, made from the bytes that a client sent."""

from __future__ import annotations

from dataclasses import replace

from activator.proxy.exchange.observers import RequestRecord
from throttler.model import Revision, RevisionID

REVISION = Revision(
    RevisionID("default", "hello-00001"), service="hello", configuration="hello-cfg"
)


def record(raw: bytes = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", **more: object) -> RequestRecord:
    """Return the record of a request, given its bytes up to the end of its head."""
    line, *lines = raw.partition(b"\r\n\r\n")[0].split(b"\r\n")
    method, target, version = line.split(b" ")
    fields = {each.partition(b":")[0].lower(): each.partition(b":")[2].strip() for each in lines}
    length = -1 if b"transfer-encoding" in fields else int(fields.get(b"content-length", 0))
    block = b"".join(b"\r\n" + each for each in lines if not each.lower().startswith(b"host:"))
    made = RequestRecord(
        *(method, target, fields.get(b"host", b""), int(version[-1:]), block, length),
        *(200, 12, 0.0123, "10.0.0.9:51234", REVISION, ""),
    )
    return replace(made, **more)  # type: ignore[arg-type] # fields, by name


#: go_answers.json names these requests by number.
REQUESTS = (
    record(
        b"GET /a?b=1 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: curl/8\r\nAccept: */*\r\n"
        b"X-Multi: one\r\nX-Multi: two\r\nx-one: 1\r\nReferer: http://r/x?'q\r\n"
        b"X-B3-TraceId: abc\r\n\r\n"
    ),
    record(
        b"POST http://Example.com:8080/te%20st/%C3%A9?x=%zz&b=2&b=3 HTTP/1.1\r\n"
        b"Host: other\r\nContent-Length: 4\r\n\r\n",
        status=503,
        response_size=0,
        latency=1.5e-05,
        client="[::1]:5",
        trace_id="0af7651916cd43dd8448eb211c80319c",
    ),
    record(
        b'PUT //double/a%2Fb/c"d? HTTP/1.0\r\nHost: h:80\r\n'
        + "User-Agent: Mözilla/5.0 ('x'; <y>) \\\r\n\r\n".encode(),
        status=404,
        response_size=7,
        latency=123.0,
        client="1.2.3.4:5",
        trace_id="t",
    ),
    record(
        b"POST /c?a=b;c&d=%41+e HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
        + "User-Agent: ÿþ\r\n\r\n".encode(),
        status=101,
        response_size=7,
        latency=2.0,
        client="1.2.3.4:5",
        trace_id="t",
    ),
    record(
        b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        response_size=7,
        latency=0.000999999,
        client="1.2.3.4:5",
        trace_id="t",
    ),
)
