"""Input that attacks by its form: each is refused and the connection closed, or made harmless.

Pods get only bytes that a strict parser accepts; the world's pods check that. Nothing that hides in
a request reaches a pod as a request. The proxy serves new connections as before. All counts return
to zero; the world checks that in the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.activator.proxy.world import (
    TO_REVISION,
    Seen,
    World,
    own_world,
    request,
    turns,
    until,
)
from tests.rows import naming

HEAD = b"Host: example.com\r\n" + TO_REVISION
SMUGGLED = request(b"/smuggled")
CHUNKED = b"Transfer-Encoding: chunked\r\n"
WHOLE = b"0\r\n\r\n"


def get(target: bytes = b"/", fields: bytes = b"", version: bytes = b"HTTP/1.1") -> bytes:
    return b"GET %b %b\r\n%b%b\r\n" % (target, version, HEAD, fields)


def post(fields: bytes, body: bytes = b"", version: bytes = b"HTTP/1.1") -> bytes:
    return b"POST / %b\r\n%b%b\r\n%b" % (version, HEAD, fields, body)


@dataclass
class Refused:
    """Bytes that must get one of these statuses, and end the connection."""

    name: str
    wire: bytes
    statuses: tuple[int, ...] = (400,)


REFUSED = [
    # -- framing
    Refused("F01-cl-te", post(b"Content-Length: 6\r\n" + CHUNKED, b"0\r\n\r\nG")),
    Refused("F02-te-cl", post(CHUNKED + b"Content-Length: 3\r\n", b"1\r\na\r\n" + WHOLE)),
    Refused("F03-two-lengths", post(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"aaaaa")),
    Refused("F04-length-twice", post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"aaaaa")),
    Refused("F05-length-list", post(b"Content-Length: 5, 5\r\n", b"aaaaa")),
    Refused("F06-length-list-differs", post(b"Content-Length: 5, 6\r\n", b"aaaaa")),
    Refused("F07-plus", post(b"Content-Length: +5\r\n", b"aaaaa")),
    Refused("F08-minus", post(b"Content-Length: -5\r\n", b"aaaaa")),
    Refused("F09-hex", post(b"Content-Length: 0x5\r\n", b"aaaaa")),
    Refused("F10-underscore", post(b"Content-Length: 1_0\r\n", b"a" * 10)),
    Refused("F11-empty", post(b"Content-Length: \r\n")),
    Refused("F11-empty-without-space", post(b"Content-Length:\r\n")),
    Refused("F12-overflow", post(b"Content-Length: 18446744073709551621\r\n", b"aaaaa")),
    Refused("F12-many-digits", post(b"Content-Length: " + b"0" * 5000 + b"5\r\n", b"aaaaa")),
    Refused("F13-arabic-digits", post("Content-Length: ٥\r\n".encode(), b"aaaaa")),
    Refused("F14-unknown-coding", post(b"Transfer-Encoding: cow\r\n", WHOLE), (400, 501)),
    Refused(
        "F15-chunked-twice", post(b"Transfer-Encoding: chunked, chunked\r\n", WHOLE), (400, 501)
    ),
    Refused("F16-gzip", post(b"Transfer-Encoding: gzip, chunked\r\n", WHOLE), (400, 501)),
    Refused("F17-identity", post(b"Transfer-Encoding: chunked, identity\r\n", WHOLE), (400, 501)),
    Refused("F18-two-lines", post(CHUNKED + CHUNKED, WHOLE), (400, 501)),
    Refused("F18-two-lines-differ", post(CHUNKED + b"Transfer-Encoding: x\r\n", WHOLE), (400, 501)),
    Refused("F19-empty-member", post(b"Transfer-Encoding: ,chunked\r\n", WHOLE), (400, 501)),
    Refused("F21-vertical-tab", post(b"Transfer-Encoding: \x0bchunked\r\n", WHOLE), (400, 501)),
    Refused("F21-8-bit", post(b"Transfer-Encoding: \xffchunked\r\n", WHOLE), (400, 501)),
    Refused("F22-http-1.0", post(CHUNKED, WHOLE, b"HTTP/1.0")),
    Refused("F23-space-before-colon", post(b"Transfer-Encoding : chunked\r\n", WHOLE)),
    Refused("F24-hex-prefix", post(CHUNKED, b"0x5\r\naaaaa\r\n" + WHOLE)),
    Refused("F25-17-digits", post(CHUNKED, b"00000000000000005\r\naaaaa\r\n" + WHOLE)),
    Refused("F26-huge", post(CHUNKED, b"ffffffffffffffff\r\naaaaa\r\n" + WHOLE)),
    Refused("F27-zeros", post(CHUNKED, b"0" * 1000 + b"5\r\naaaaa\r\n" + WHOLE)),
    Refused("F28-bare-lf", post(CHUNKED, b"5\naaaaa\r\n" + WHOLE)),
    Refused("F28-bare-lf-at-the-end", post(CHUNKED, b"0\n\n")),
    Refused("F29-no-crlf-behind", post(CHUNKED, b"5\r\naaaaaXX" + WHOLE)),
    Refused("F29-lf-behind", post(CHUNKED, b"5\r\naaaaa\n0\r\n\r\n")),
    Refused("F30-lf-ends-extension", post(CHUNKED, b"5;\naaaaa\r\n" + WHOLE)),
    Refused("F31-cr-in-extension", post(CHUNKED, b"5;a\rb\r\naaaaa\r\n" + WHOLE)),
    Refused("F31-lf-in-extension", post(CHUNKED, b"5;a\nb\r\naaaaa\r\n" + WHOLE)),
    Refused("F32-empty-extension", post(CHUNKED, b"5;\r\naaaaa\r\n" + WHOLE)),
    Refused("F32-bad-extension", post(CHUNKED, b"5;bad[=x\r\naaaaa\r\n" + WHOLE)),
    Refused("F32-extension-without-value", post(CHUNKED, b"5;a=\r\naaaaa\r\n" + WHOLE)),
    Refused("F32-open-quote", post(CHUNKED, b'5;a="b\r\naaaaa\r\n' + WHOLE)),
    Refused("F32-bad-last-extension", post(CHUNKED, b"5\r\naaaaa\r\n0;\r\n\r\n")),
    Refused("F33-long-extension", post(CHUNKED, b"5;" + b"a" * 65536 + b"\r\naaaaa\r\n" + WHOLE)),
    Refused("F33-many-extensions", post(CHUNKED, (b"1;" + b"a" * 500 + b"\r\na\r\n") * 50)),
    Refused("F34-space-behind-size", post(CHUNKED, b"5 \r\naaaaa\r\n" + WHOLE)),
    Refused("F35-empty-size", post(CHUNKED, b"\r\naaaaa\r\n" + WHOLE)),
    Refused("F35-negative", post(CHUNKED, b"-5\r\naaaaa\r\n" + WHOLE)),
    Refused("F36-trailer-folded", post(CHUNKED, b"0\r\nA: b\r\n c\r\n\r\n")),
    Refused("F36-trailer-without-colon", post(CHUNKED, b"0\r\nAb\r\n\r\n")),
    Refused("F36-trailer-with-nul", post(CHUNKED, b"0\r\nA: \0\r\n\r\n")),
    Refused("F36-endless-trailers", post(CHUNKED, b"0\r\n" + b"A: b\r\n" * 20_000)),
    # -- start line and fields
    Refused("S01-obs-fold", get(fields=b"X-A: b\r\n c\r\n")),
    Refused("S02-obs-fold-coding", post(b"Transfer-Encoding:\r\n chunked\r\n", WHOLE), (400, 501)),
    Refused("S03-space-before-field", b"GET / HTTP/1.1\r\n X: y\r\n" + HEAD + b"\r\n"),
    Refused("S04-bare-lf", get().replace(b"\r\n", b"\n")),
    Refused("S04-one-bare-lf", get(fields=b"X-A: b\nX-C: d\r\n")),
    Refused("S05-bare-cr-in-value", get(fields=b"X-A: b\rc\r\n")),
    Refused("S06-bare-cr-as-end", get(fields=b"X-A: b\rX-C: d\r\n")),
    Refused("S06-bare-cr-everywhere", get().replace(b"\r\n", b"\r")),
    Refused("S06-bare-cr-behind-start", get().replace(b"\r\n", b"\r", 1)),
    Refused("S06-bare-cr-before-lf", get().replace(b"\r\n\r\n", b"\r\r\n\r\n")),
    Refused("S07-nul-in-value", get(fields=b"X-A: b\0c\r\n")),
    Refused("S08-control-in-value", get(fields=b"X-A: b\x01c\r\n")),
    Refused("S08-delete-in-value", get(fields=b"X-A: b\x7fc\r\n")),
    Refused("S14-control-in-name", get(fields=b"X\x01A: b\r\n")),
    Refused("S14-nul-in-name", get(fields=b"X\0A: b\r\n")),
    Refused("S09-space-before-colon", get(fields=b"X-A : b\r\n")),
    Refused("S10-no-colon", get(fields=b"X-A\r\n")),
    Refused("S11-empty-name", get(fields=b": b\r\n")),
    Refused("S12-8-bit-name", get(fields=b"X-\xe9: b\r\n")),
    Refused("S16-2-mib", get(fields=b"X-A: " + b"a" * (2 << 20) + b"\r\n"), (431,)),
    Refused("S17-2000-fields", get(fields=b"X-A: b\r\n" * 2000), (431,)),
    Refused("S18-long-target", get(b"/" + b"a" * 66_000), (414,)),
    Refused("S31-long-method", b"A" * 5000 + get()[3:]),
    Refused("S31-long-method-without-end", b"A" * 5000),
    Refused("S19-control-in-target", get(b"/a\x01b")),
    Refused("S19-delete-in-target", get(b"/a\x7fb")),
    Refused("S20-space-in-target", get(b"/a b")),
    Refused("S22-fragment", get(b"/a#b")),
    Refused("S27-tab", get().replace(b"GET /", b"GET\t/")),
    Refused("S28-two-spaces", get().replace(b"GET /", b"GET  /")),
    Refused("S28-two-spaces-before-version", get().replace(b"/ HTTP", b"/  HTTP")),
    Refused("S28-space-behind-version", get().replace(b"HTTP/1.1\r", b"HTTP/1.1 \r")),
    Refused("S30-bad-method", get().replace(b"GET", b"G(T")),
    Refused("S30-no-method", get()[3:]),
    Refused("S30-no-target", get().replace(b"GET / ", b"GET ")),
    Refused("S32-http-0.9", b"GET /\r\n\r\n"),
    Refused("S32-http-0.9-named", get(version=b"HTTP/0.9"), (400, 505)),
    Refused("S34-http-2.0", get(version=b"HTTP/2.0"), (505,)),
    Refused("S35-http-9.9", get(version=b"HTTP/9.9"), (400, 505)),
    Refused("S36-lower-case", get(version=b"http/1.1")),
    Refused("S37-leading-zero", get(version=b"HTTP/01.1")),
    Refused("S37-no-minor", get(version=b"HTTP/1")),
    Refused("S38-empty-lines", b"\r\n\r\n" + get()),
    Refused("S39-tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256))),
    Refused("S40-random", bytes((i * 7919 + 13) % 256 for i in range(512))),
    Refused("S41-proxy-line", b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + get()),
    Refused("S41-proxy-v2", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + b"\1" * 12 + get()),
    # -- target and host
    Refused("H01-no-host", b"GET / HTTP/1.1\r\n" + TO_REVISION + b"\r\n"),
    Refused("H03-two-hosts", get(fields=b"Host: other.example\r\n")),
    Refused("H04-host-twice", get(fields=b"Host: example.com\r\n")),
    Refused("H05-empty-host", get().replace(b"Host: example.com", b"Host: ")),
    Refused("H06-user", get().replace(b"Host: example.com", b"Host: u@example.com")),
    Refused("H06-path", get().replace(b"Host: example.com", b"Host: example.com/x")),
    Refused("H07-list", get().replace(b"Host: example.com", b"Host: a, b")),
    Refused("H07-list-without-space", get().replace(b"Host: example.com", b"Host: a,b")),
    Refused("H08-bad-port", get().replace(b"Host: example.com", b"Host: a:99999x")),
    Refused("H10-https", get(b"https://example.com/")),
    Refused("H11-file", get(b"file:///etc/passwd")),
    Refused("H11-no-authority", get(b"http:///x")),
    Refused("H12-connect", b"CONNECT evil:80 HTTP/1.1\r\n" + HEAD + b"\r\n", (405, 501)),
    Refused("H13-connect-origin", b"CONNECT / HTTP/1.1\r\n" + HEAD + b"\r\n", (400, 405, 501)),
    Refused("H15-get-asterisk", get(b"*")),
    Refused("H18-preface-1.1", b"PRI * HTTP/1.1\r\n" + HEAD + b"\r\n"),
    # -- fields that only look like the activator's own
    Refused("C10-expect", post(b"Expect: other\r\nContent-Length: 1\r\n", b"a"), (417,)),
    Refused("C10-expect-list", get(fields=b"Expect: 100-continue, other\r\n"), (417,)),
]


CUTS = pytest.mark.parametrize("whole", [True, False], ids=["whole", "dripped"])


def pieces(wire: bytes) -> int:
    """Return bytes to drip: one by one, or long input in some hundred steps."""
    return max(1, len(wire) // 1000)


@CUTS
@pytest.mark.parametrize("family", ["F", "S", "H", "C"])
async def test_it_is_refused_and_nothing_behind_it_is_served(anyio_backend, family, whole):
    for row in (row for row in REFUSED if row.name.startswith(family)):
        async with own_world(row.name) as world:
            await is_refused(world, row, whole)


async def is_refused(world: World, row: Refused, whole: bool) -> None:
    pod = await world.serving()
    client = await world.client()

    if whole:
        client.send(row.wire + SMUGGLED)
    else:
        await client.drip(row.wire + SMUGGLED, pieces(row.wire))

    answer = await client.answer()
    assert answer.status in row.statuses
    assert answer.get(b"connection") == b"close"
    await client.ended()
    client.close()
    await until(lambda: not world.busy)
    assert len(pod.requests) <= 1
    assert not any(seen.whole or b"smuggled" in seen.target for seen in pod.requests)
    assert all(connection.closed for connection in pod.connections if connection.received)
    assert (await world.ask()).status == 200


BARE_CRS = [
    b"GET / HTTP/1.1\rHost: x\r\r",
    b"GET / HTTP/1.1\r\nHost: x\r\r",
    b"GET / HTTP/1.1\r\nHost: x\r\nX-A: b\rc",
    b"GET / HTTP/1.1\r\nHost: x\r\n\rG",
    b"\rGET / HTTP/1.1\r\n",
]


@CUTS
async def test_a_bare_cr_is_refused_at_once(world, whole):
    """S06: not only after the header timeout, since ``until`` lets no virtual time pass."""
    for wire in BARE_CRS:
        with naming(wire):
            client = await world.client()

            await client.drip(wire, len(wire) if whole else 1)
            await until(lambda client=client: client.eof, "the end of the connection")

            assert (await client.answer()).status == 400


@dataclass
class Accepted:
    """Bytes that are one good request; the pod sees it with these fields and this body."""

    name: str
    wire: bytes
    sees: dict[bytes, list[bytes]]
    body: bytes = b""
    start: bytes = b""
    status: int = 200


KEPT = {b"x-forwarded-for": [b"127.0.0.1"], b"k-proxy-request": [b"activator"]}
HELLO = b"5\r\nhello\r\n0\r\n"

ACCEPTED = [
    Accepted(
        "F20-odd-spelling",
        post(b"Transfer-Encoding: \tChUnKeD \r\n", HELLO + b"\r\n"),
        {b"transfer-encoding": [b"chunked"], b"content-length": []},
        b"hello",
    ),
    Accepted("F32-extension", post(CHUNKED, b'5;a="b"\r\nhello\r\n0;x\r\n\r\n'), {}, b"hello"),
    Accepted(
        "F32-extensions",
        post(CHUNKED, b'5 ; a\t= "\\";b" ;c=d;e\r\nhello\r\n0\r\n\r\n'),
        {},
        b"hello",
    ),
    Accepted(
        "F39-get-with-body",
        get(fields=b"Content-Length: %d\r\n" % len(SMUGGLED)) + SMUGGLED,
        {b"content-length": [b"%d" % len(SMUGGLED)]},
        SMUGGLED,
    ),
    Accepted(
        "F40-body-that-looks-like-a-request",
        post(b"Content-Length: %d\r\n" % len(SMUGGLED), SMUGGLED),
        {},
        SMUGGLED,
    ),
    Accepted(
        "F40-chunk-that-looks-like-a-request",
        post(CHUNKED, b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)),
        {},
        SMUGGLED,
    ),
    Accepted("S13-8-bit-value", get(fields=b"X-A: caf\xe9 \xff\r\n"), {b"x-a": [b"caf\xe9 \xff"]}),
    Accepted("S15-64-kib-value", get(fields=b"X-A: " + b"a" * 65536 + b"\r\n"), {}),
    Accepted("S17-900-fields", get(fields=b"X-A: b\r\n" * 900), {b"x-a": [b"b"] * 900}),
    Accepted("S23-bad-percent", get(b"/%zz%"), {}, start=b"GET /%zz% HTTP/1.1"),
    Accepted("S24-encoded-slash", get(b"/a%2f..%2Fb"), {}, start=b"GET /a%2f..%2Fb HTTP/1.1"),
    Accepted("S25-dots", get(b"/../../a/./b"), {}, start=b"GET /../../a/./b HTTP/1.1"),
    Accepted("S26-two-slashes", get(b"//evil/x?y"), {}, start=b"GET //evil/x?y HTTP/1.1"),
    Accepted("S29-lower-case-method", b"get" + get()[3:], {}, start=b"get / HTTP/1.1"),
    Accepted("S29-unknown-method", b"FROB!" + get()[3:], {}, start=b"FROB! / HTTP/1.1"),
    Accepted("S33-http-1.2", get(version=b"HTTP/1.2"), {}, start=b"GET / HTTP/1.1"),
    Accepted("S38-empty-line", b"\r\n" + get(), {}, start=b"GET / HTTP/1.1"),
    Accepted(
        "H02-no-host-in-1.0",
        b"GET / HTTP/1.0\r\n" + TO_REVISION + b"\r\n",
        {b"k-original-host": [b""]},
        start=b"GET / HTTP/1.1",
    ),
    Accepted(
        "H09-absolute",
        get(b"http://evil.example:81/x?y"),
        {b"k-original-host": [b"evil.example:81"]},
        start=b"GET /x?y HTTP/1.1",
    ),
    Accepted("H09-absolute-no-path", get(b"HTTP://evil.example?q"), {}, start=b"GET /?q HTTP/1.1"),
    Accepted(
        "H14-options-asterisk",
        get(b"*").replace(b"GET", b"OPTIONS"),
        {},
        start=b"OPTIONS * HTTP/1.1",
    ),
    Accepted(
        "H16-trace",
        get(fields=b"Max-Forwards: 0\r\n").replace(b"GET", b"TRACE"),
        {b"max-forwards": [b"0"]},
        start=b"TRACE / HTTP/1.1",
    ),
    Accepted(
        "C01-connection-names-ours",
        get(
            fields=b"Connection: X-Forwarded-For, K-Proxy-Request, K-Original-Host, "
            b"X-Forwarded-Proto, Knative-Serving-Revision, Forwarded\r\n"
            b"X-Forwarded-Proto: https\r\nForwarded: for=1.2.3.4\r\n"
        ),
        {
            **KEPT,
            b"x-forwarded-proto": [b"https"],
            b"forwarded": [b"for=1.2.3.4"],
            b"k-original-host": [b"example.com"],
            b"connection": [],
        },
    ),
    Accepted(
        "C02-connection-names-others",
        get(fields=b"Connection: X-Mine, keep-alive\r\nX-Mine: 1\r\nX-mine: 2\r\nX-Mine2: 3\r\n"),
        {b"x-mine": [], b"x-mine2": [b"3"], b"connection": []},
    ),
    Accepted(
        "C03-connection-names-framing",
        post(b"Connection: Host, Content-Length\r\nContent-Length: 5\r\n", b"hello"),
        {b"content-length": [b"5"]},
        b"hello",
    ),
    Accepted(
        "C04-hop-by-hop",
        get(
            fields=b"Keep-Alive: timeout=5\r\nProxy-Connection: close\r\nTE: gzip\r\n"
            b"Proxy-Authorization: Basic eA==\r\nProxy-Authenticate: Basic\r\nTrailer: X\r\n"
        ),
        {
            b"keep-alive": [],
            b"proxy-connection": [],
            b"proxy-authorization": [],
            b"proxy-authenticate": [],
            b"te": [],
            b"trailer": [],
        },
    ),
    Accepted("C04-te-trailers", get(fields=b"TE: gzip, trailers\r\n"), {b"te": [b"trailers"]}),
    Accepted(
        "C05-h2c",
        get(
            fields=b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
            b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n"
        ),
        {b"upgrade": [], b"http2-settings": [], b"connection": []},
    ),
    Accepted(
        "C05-h2c-in-a-list",
        get(fields=b"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n"),
        {b"upgrade": [], b"connection": []},
    ),
    Accepted("C06-upgrade-alone", get(fields=b"Upgrade: websocket\r\n"), {b"upgrade": []}),
    Accepted(
        "C07-websocket-version",
        get(
            fields=b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 1\r\n",
        ),
        {b"upgrade": [b"websocket"], b"connection": [b"Upgrade"], b"sec-websocket-version": [b"1"]},
    ),
    Accepted(
        "C08-upgrade-with-body",
        post(b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n", b"hello"),
        {b"upgrade": [], b"connection": []},
        b"hello",
    ),
    Accepted("C11-revision-twice-alike", get(fields=b"Knative-Serving-Revision: rev\r\n"), {}),
    Accepted(
        "C12-underscores",
        get(
            fields=b"Knative_Serving_Revision: a\r\nX_Forwarded_For: 1.2.3.4\r\n"
            b"K-Proxy_Request: x\r\nContent_Length: 5\r\nTransfer_Encoding: chunked\r\n"
            b"X_Mine: 1\r\n"
        ),
        {
            **KEPT,
            b"knative_serving_revision": [],
            b"x_forwarded_for": [],
            b"k-proxy_request": [],
            b"content_length": [],
            b"transfer_encoding": [],
            b"x_mine": [b"1"],
        },
    ),
    Accepted(
        "client-sends-control-fields",
        get(
            fields=b"K-Proxy-Request: x\r\nK-Passthrough-Lb: true\r\nK-Network-Hash: h\r\n"
            b"K-Network-Probe:\r\nX-Forwarded-For: 1.2.3.4\r\n"
        ),
        {
            b"k-proxy-request": [b"activator"],
            b"k-passthrough-lb": [b"true"],
            b"k-network-hash": [],
            b"k-network-probe": [],
            b"x-forwarded-for": [b"1.2.3.4, 127.0.0.1"],
            b"knative-serving-revision": [],
            b"knative-serving-namespace": [],
        },
    ),
]


@CUTS
async def test_it_is_made_harmless(anyio_backend, whole):
    for row in ACCEPTED:
        async with own_world(row.name) as world:
            await is_made_harmless(world, row, whole)


async def is_made_harmless(world: World, row: Accepted, whole: bool) -> None:
    pod = await world.serving()
    client = await world.client()

    if whole:
        client.send(row.wire)
    else:
        await client.drip(row.wire, pieces(row.wire))

    assert (await client.answer()).status == row.status
    (seen,) = pod.requests
    assert seen.whole
    assert seen.body == row.body
    for name, values in row.sees.items():
        assert seen.all(name) == values, name
    assert seen.all(b"host") == [pod.endpoint.address.encode()]
    assert pod.connections[0].received.startswith(row.start)
    head = pod.connections[0].received.partition(b"\r\n\r\n")[0]
    assert head.count(b"\n") == head.count(b"\r") == head.count(b"\r\n")
    client.close()
    assert (await world.ask()).status == 200


@pytest.mark.parametrize("name", [b"Knative-Serving-Revision", b"knative-serving-NAMESPACE"])
async def test_two_revisions_in_one_request_are_refused(world, name):
    """C11: it is unknown which of them the ingress set."""
    pod = await world.serving()
    client = await world.client()

    client.send(get(fields=name + b": other\r\n"))

    assert (await client.answer()).status == 400
    assert not pod.requests


TRAILERS = (
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: evil\r\nKnative-Serving-Revision: x"
    b"\r\nX-Forwarded-For: 1.2.3.4\r\nK-Proxy-Request: x\r\nAuthorization: x\r\n"
)


@CUTS
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (b"", []),
        (b"TE: trailers\r\n", [(b"x-sum", b"1")]),
        (b"Trailer: X-Sum\r\n", [(b"x-sum", b"1")]),
    ],
    ids=["unasked", "te", "announced"],
)
async def test_control_fields_in_trailers_do_not_pass(world, fields, expected, whole):
    """F36, F37, F38."""
    pod = await world.serving()
    client = await world.client()
    wire = post(CHUNKED + fields, HELLO + TRAILERS + b"X-Sum: 1\r\n\r\n")

    await client.drip(wire, len(wire) if whole else 1)

    assert (await client.answer()).status == 200
    assert pod.requests[0].trailers == expected
    assert len(pod.requests[0].all(b"host")) == 1


def _codings() -> list[bytes]:
    """Ways to write Transfer-Encoding that one parser takes and another does not."""
    odd = [bytes([c]) for c in (*range(0x20), 0x22, 0x2C, 0x3B, 0x7F, 0x80, 0x85, 0xA0, 0xFF)]
    lines = []
    for byte in odd:
        lines += [
            b"Transfer-Encoding:" + byte + b"chunked",
            b"Transfer-Encoding: chunked" + byte,
            b"Transfer-Encoding" + byte + b": chunked",
            byte + b"Transfer-Encoding: chunked",
            b"Transfer-Encoding: x" + byte + b"chunked",
            b"X: y" + byte + b"Transfer-Encoding: chunked",
            b"Transfer-Encoding:" + byte + b"\r\n chunked",
            b"Transfer" + byte + b"Encoding: chunked",
        ]
    return lines


async def test_no_spelling_of_transfer_encoding_hides_a_request(world):
    """F21: a body whose end depends on whether the line means chunked."""
    pod = await world.serving()
    body = WHOLE + SMUGGLED
    refused = 0
    lines = _codings()
    for line in lines:
        client = await world.client()
        client.send(post(line + b"\r\nContent-Length: %d\r\n" % len(body), body))
        answer = await client.answer()
        assert answer.status in (200, 400, 501), line
        refused += answer.status != 200
        client.close()
        if answer.status == 200:
            assert pod.requests[-1].body == body, line
            assert not pod.requests[-1].all(b"transfer-encoding"), line
    assert not any(b"smuggled" in seen.target for seen in pod.requests)
    assert refused > 0.8 * len(lines)


async def test_names_that_do_not_exist_leave_nothing_behind(world):
    await world.serving()
    client = await world.client()
    for number in range(500):
        client.send(
            b"GET / HTTP/1.1\r\nHost: h%d\r\nKnative-Serving-Namespace: ns\r\n"
            b"Knative-Serving-Revision: name-%d\r\n\r\n" % (number, number)
        )
        answer = await client.answer()
        assert answer.status == 404
        assert b'"name-%d" not found' % number in answer.body
    assert (await world.ask()).status == 200

    assert len(world.driver.entries) == 1


async def test_a_clients_bytes_cannot_split_an_own_response(world):
    """Names appear in responses: in the body as they are, never in a field."""
    client = await world.client()
    client.send(
        b"GET / HTTP/1.1\r\nHost: h\r\nKnative-Serving-Namespace: n\r\n"
        b"Knative-Serving-Revision: \xff<script>\xe9\r\n\r\n"
    )

    answer = await client.answer()

    assert answer.status == 404
    assert b"<script>" not in b"".join(value for _, value in answer.headers)


async def test_an_early_own_response_does_not_read_the_body_for_ever(world):
    await world.serving()
    client = await world.client()
    client.send(b"POST / HTTP/1.1\r\nHost: nowhere\r\nContent-Length: 1000000000\r\n\r\n")
    client.send(b"a" * 50_000)

    answer = await client.answer()

    assert (answer.status, answer.get(b"connection")) == (404, b"close")
    await client.ended()
    for _ in range(200):
        client.send(b"a" * 1_000_000)
        await turns(5)
    assert client.transport.get_write_buffer_size() > 50_000_000
    await world.let_linger()
    await until(lambda: client.lost)


def seen_headers(seen: Seen) -> list[Any]:
    return [(name.lower(), value) for name, value in seen.headers]


async def test_random_bytes_behind_a_good_head_harm_no_other(world):
    pod = await world.serving()
    for seed in range(50):
        client = await world.client()
        noise = bytes((i * i * (seed + 3) + seed * 31 + i) % 256 for i in range(300))
        client.send(get() + noise)
        assert (await client.answer()).body == b"hello"
        client.close()
    assert len(pod.requests) == 50
    assert all(seen_headers(seen) == seen_headers(pod.requests[0]) for seen in pod.requests)
