"""Responses of our own to requests in HTTP/2 that are for no revision."""

from __future__ import annotations

from http import HTTPStatus

from activator.proxy.client.stream import Home
from activator.proxy.http2.errors import ErrorCode
from activator.proxy.http2.section import reply_block
from activator.proxy.http2.stream import Stream
from activator.proxy.message import replies
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.problem import negotiated
from activator.proxy.message.replies import Reply
from activator.proxy.message.request import Request


def send_reply(home: Home, stream: Stream, request: Request, reply: Reply) -> None:
    """Respond to a probe, or to a client for which there is no room."""
    reply = negotiated(reply, request.lines)
    _send(home, stream, reply, bodiless=request.method == b"HEAD" or not reply.body)


def send_refusal(home: Home, stream: Stream, error: FramingError) -> None:
    """Respond to what is malformed or refused as in HTTP/1: the response says what is wrong.

    Behind the response to a malformed request RST_STREAM follows (RFC 9113 section 8.1.1), and
    behind the request if that ends soon, see ``Http2Client.on_half_closed``.
    """
    if error.status == HTTPStatus.BAD_REQUEST:
        stream.fault = ErrorCode.PROTOCOL_ERROR
    reply = negotiated(replies.refused(error.status, str(error)), error.block)
    _send(home, stream, reply, bodiless=error.to_head)


def _send(home: Home, stream: Stream, reply: Reply, *, bodiless: bool) -> None:
    block = reply_block(reply, home.services.date())
    home.link.write_headers(stream, block, ended=bodiless)
    if not bodiless:
        stream.send(reply.body, b"")
    home.exchange_done(stream)
