"""Clients that read nothing: ``python -m benchmarks.slow_clients``, see `main`.

Opens connections, sends one GET in HTTP/1.1 or several in HTTP/2 on each, and reads nothing.
Prints ``sent`` as a line of JSON when all requests are sent; ends with its standard input.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Final

import hpack

from benchmarks.http2_requests import END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame
from benchmarks.process import raise_file_limit

#: END_STREAM and END_HEADERS: a request without a body, in one frame.
WHOLE: Final = END_HEADERS | END_STREAM


def requests(way: str, host: str, streams: int) -> bytes:
    """Return the bytes that one client sends.

    Arguments:
        way: ``http1`` or ``h2c``.
        streams: requests on one HTTP/2 connection.
    """
    if way == "http1":
        return f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    encoder = hpack.Encoder()
    fields = {":method": "GET", ":scheme": "http", ":path": "/", ":authority": host}
    heads = [
        frame(HEADERS, WHOLE, 2 * number + 1, encoder.encode(list(fields.items())))
        for number in range(streams)
    ]
    return b"".join((PREFACE, frame(SETTINGS, 0, 0, b""), *heads))


def main(way: str, port: int, host: str, connections: int, streams: int) -> None:
    """Connect, send, report, and wait for the end of standard input.

    Arguments:
        way: see `requests`; port: of the proxy; host: the Host of the requests.
        connections: how many; streams: requests on each HTTP/2 connection.
    """
    data = requests(way, host, streams)
    held = []
    for _ in range(connections):
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(data)
        held.append(client)
    print(json.dumps({"sent": len(held)}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    raise_file_limit()
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
