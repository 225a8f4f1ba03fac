"""The one table of parsers that are fuzzed: what takes bytes of a client or of a pod.

Each entry takes pieces of one input and returns all that a user of the parser can see. A change
of the byte path changes this file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from activator.proxy.client.heads_in_progress import HeadBudget, HeadInProgress
from activator.proxy.client.http2 import request_of
from activator.proxy.exchange import translation
from activator.proxy.exchange.exchange import contradiction
from activator.proxy.exchange.observers import lines_to_send
from activator.proxy.exchange.retry import claim_of, own_failure
from activator.proxy.http2 import fields as http2_fields
from activator.proxy.http2 import hpack, section
from activator.proxy.http2.frame_reader import FrameReader, read_settings
from activator.proxy.http2.frames import ConnectionFault
from activator.proxy.http2.hpack import Decoder
from activator.proxy.http2.section import Recurring
from activator.proxy.message import fields as http1_fields
from activator.proxy.message import grpc
from activator.proxy.message.error_forms import prefers_json
from activator.proxy.message.fields import HttpVersion
from activator.proxy.message.grammar import (
    REQUEST_LINES,
    RESPONSE_LINES,
    ChunkedBody,
    FramingError,
    LengthBody,
    MessageHead,
    PodChunkedBody,
)
from activator.proxy.message.own_responses import unexpected_probe
from activator.proxy.message.request import RequestLimits, pod_head, read_request, wants_trailers
from activator.proxy.message.response import (
    Response,
    client_head,
    interim_head,
    read_response,
    switching_head,
    with_crlf,
)


class Parser(NamedTuple):
    """One parser.

    Attributes:
        parse: takes the pieces of an input, returns all that it makes of them.
        corpus: which valid inputs inputs are made from, see tests/fuzz/corpus.py.
        in_pieces: whether an input may come in several pieces.
    """

    parse: Callable[[Sequence[bytes]], Any]
    corpus: str
    in_pieces: bool = False


#: Small enough that inputs reach the bounds.
LIMITS: Final = RequestLimits(max_head=2048, max_fields=12, max_target=256)

_CLIENT: Final = b"10.0.0.1"
_CLIENTS: Final = (
    (HttpVersion.HTTP_1_0, False, False),
    (HttpVersion.HTTP_1_1, True, False),
    (HttpVersion.HTTP_1_1, False, True),
)


def request_head(pieces: Sequence[bytes]) -> Any:
    """Parse a head, and write the result."""
    (head,) = pieces
    request = read_request(head + b"\r\n\r\n", LIMITS)
    seen = [dict(request.fields), request.counted_as, wants_trailers(request)]
    return [request, *seen, contradiction(request.fields), pod_head(request, _CLIENT)]


def request_to_http2(pieces: Sequence[bytes]) -> Any:
    """Write a request in HTTP/1 for a pod that speaks HTTP/2, and read that again."""
    request = read_request(pieces[0] + b"\r\n\r\n", LIMITS)
    block = section.section_of(request, _CLIENT)
    traced = section.traced_section(request, block, _CLIENT)
    return [block, traced, Decoder().decode(block), lines_to_send(request, traced=True)]


def response_to_http2(pieces: Sequence[bytes]) -> Any:
    """Write a response in HTTP/1 for a client that speaks HTTP/2, and read that again."""
    response = read_response(pieces[0] + b"\r\n\r\n", to_head=False)
    fields = translation.as_section(response)
    decoded = Decoder().decode(fields.block)
    return [fields, decoded, outcome_of(http2_fields.read_response, decoded)]


def block_to_http1(pieces: Sequence[bytes]) -> Any:
    """Write what a header block says, as a head or as trailers, for a peer that speaks HTTP/1."""
    fields = Decoder(max_list=4096).decode(pieces[0])
    return [outcome_of(write, list(fields)) for write in (_pod_head, _client_head, _lines)]


def _pod_head(fields: list[Any]) -> Any:
    found = http2_fields.read_request(fields)
    request = request_of(found, _CLIENT, ended=found.length <= 0)
    traced = section.traced_section(request, request.section, _CLIENT)
    return [request, request.lines, request.own_lines(), pod_head(request, _CLIENT), traced]


def _client_head(fields: list[Any]) -> Any:
    response = translation.as_head(http2_fields.read_response(fields), to_head=False)
    return [response, _heads_for_clients(response)]


def _lines(fields: list[Any]) -> Any:
    lines = translation.as_lines(http2_fields.read_trailers(fields))
    return [lines, translation.as_block(lines)]


def outcome_of(read: Callable[[list[Any]], Any], fields: list[Any]) -> Any:
    """Return what is read, or the error."""
    try:
        return read(fields)
    except FramingError as error:
        return error


def head_in_progress(pieces: Sequence[bytes]) -> Any:
    """Feed a head as it comes, up to its end."""
    head = HeadInProgress(LIMITS, HeadBudget(1 << 30), 0.0)
    found = []
    for piece in pieces:
        found.append(head.feed(piece))
        if found[-1]:
            break
    return found


def _response(head: bytes, to_head: bool) -> Any:
    response = read_response(head + b"\r\n\r\n", to_head=to_head)
    claim = claim_of(response, bodiless=to_head)
    return [response, claim, own_failure(claim, [b"body"]), _heads_for_clients(response)]


def _heads_for_clients(response: Response) -> list[bytes]:
    heads = [
        client_head(response, version=version, chunk=chunk, close=close, date=b"now")
        for version, chunk, close in _CLIENTS
    ]
    return [*heads, interim_head(response), switching_head(response)]


def response_head(pieces: Sequence[bytes]) -> Any:
    """Parse a head, and write the result."""
    return _response(pieces[0], to_head=False)


def response_to_head(pieces: Sequence[bytes]) -> Any:
    """Parse the same as a response to HEAD."""
    return _response(pieces[0], to_head=True)


def response_with_bare_lf(pieces: Sequence[bytes]) -> Any:
    """End each line of a head with CRLF."""
    return with_crlf(pieces[0].replace(b"\r\n", b"\n", 2) + b"\n\r\nbody\n")


def _body(body: ChunkedBody | LengthBody, pieces: Sequence[bytes]) -> Any:
    payload: list[bytes] = []
    for number, piece in enumerate(pieces):
        rest = body.feed(piece, payload)
        if rest is not None:
            return [b"".join(payload), rest, b"".join(pieces[number + 1 :]), body.trailers]
    return [b"".join(payload), None, body.trailers]


def chunked_body(pieces: Sequence[bytes]) -> Any:
    """Parse a chunked body, and the bytes after it."""
    body = ChunkedBody()
    read = _body(body, pieces)
    return [read, http1_fields.clean_trailers(body.trailers), translation.as_block(body.trailers)]


def chunked_body_of_pod(pieces: Sequence[bytes]) -> Any:
    """Read the same where a bare LF ends a line."""
    return _body(PodChunkedBody(), [piece.replace(b"\r\n", b"\n") for piece in pieces])


def length_body(pieces: Sequence[bytes]) -> Any:
    """Read a body of a length."""
    return _body(LengthBody(40), pieces)


def header_block(pieces: Sequence[bytes]) -> Any:
    """Decode header blocks of one connection, each piece a block."""
    decoder = Decoder(max_list=4096)
    found: list[Any] = []
    for piece in pieces:
        try:
            decoded = decoder.decode(piece)
        except ConnectionFault:
            raise
        except Exception as error:
            found.append(error)
            continue
        found.append([decoded, _sections(decoded)])
    return found


def _sections(fields: list[Any]) -> list[Any]:
    """Read fields as each kind of section, and as grpc-timeout."""
    found: list[Any] = []
    for read in (http2_fields.read_request, http2_fields.read_response, http2_fields.read_trailers):
        try:
            found.append(read(list(fields)))
        except Exception as error:
            found.append(error)
    return [*found, grpc.timeout(dict(fields)), grpc.is_grpc(dict(fields))]


def recurring_block(pieces: Sequence[bytes]) -> Any:
    """Read header blocks by way of the memo of a connection."""
    decoder = Decoder(max_list=4096)
    reader = Recurring(decoder, lambda fields: list(fields))
    found: list[Any] = []
    for piece in pieces:
        known = reader.known.get(piece)
        found.append([known, reader.read(piece), len(reader.known)])
    return found


def huffman_string(pieces: Sequence[bytes]) -> Any:
    """Decode a string of HPACK."""
    return hpack.huffman_decode(pieces[0])


class _Log:
    """Takes each callback of a FrameReader down."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.calls.append([name, *arguments])


def _frames(pieces: Sequence[bytes], preface: bool) -> Any:
    log = _Log()
    reader = FrameReader(log, preface=preface, max_frame=1 << 10)
    seen: list[Any] = []
    try:
        for piece in pieces:
            reader.feed(piece)
            seen.append((reader.incomplete, reader.block.size()))
    except Exception as error:
        seen.append(error)
    return [log.calls, seen]


def frames_of_client(pieces: Sequence[bytes]) -> Any:
    """Read frames behind the preface of a client."""
    return _frames(pieces, True)


def frames_of_pod(pieces: Sequence[bytes]) -> Any:
    """Read frames of a pod."""
    return _frames(pieces, False)


def settings(pieces: Sequence[bytes]) -> Any:
    """Read the payload of SETTINGS."""
    return read_settings(pieces[0])


def field_lines(pieces: Sequence[bytes]) -> Any:
    """Parse field lines for rarely used fields."""
    block = b"\r\n" + pieces[0]
    named = http1_fields.tokens(pieces[0])
    return [
        prefers_json(block),
        named,
        http1_fields.without_named(block, named),
        [MessageHead(known, block + b"\r\n\r\n") for known in (REQUEST_LINES, RESPONSE_LINES)],
        section.block_of(block),
        unexpected_probe(pieces[0]),
    ]


PARSERS: Final[dict[str, Parser]] = {
    "request head": Parser(request_head, "requests"),
    "head in progress": Parser(head_in_progress, "requests", in_pieces=True),
    "request to HTTP/2": Parser(request_to_http2, "requests"),
    "response to HTTP/2": Parser(response_to_http2, "responses"),
    "header blocks to HTTP/1": Parser(block_to_http1, "blocks"),
    "response head": Parser(response_head, "responses"),
    "response to HEAD": Parser(response_to_head, "responses"),
    "response with bare LF": Parser(response_with_bare_lf, "responses"),
    "chunked body": Parser(chunked_body, "chunked", in_pieces=True),
    "chunked body of a pod": Parser(chunked_body_of_pod, "chunked", in_pieces=True),
    "body of a length": Parser(length_body, "chunked", in_pieces=True),
    "header blocks": Parser(header_block, "blocks", in_pieces=True),
    "recurring blocks": Parser(recurring_block, "blocks", in_pieces=True),
    "Huffman string": Parser(huffman_string, "strings"),
    "frames of a client": Parser(frames_of_client, "client frames", in_pieces=True),
    "frames of a pod": Parser(frames_of_pod, "pod frames", in_pieces=True),
    "settings": Parser(settings, "settings"),
    "field lines": Parser(field_lines, "lines"),
}
