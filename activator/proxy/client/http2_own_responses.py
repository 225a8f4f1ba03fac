"""Sends the activator's own responses to HTTP/2 requests that reach no revision."""

from __future__ import annotations

from http import HTTPStatus

from activator.proxy.client.stream import StreamContext
from activator.proxy.http2.frames import ErrorCode
from activator.proxy.http2.section import own_response_block
from activator.proxy.http2.stream import Stream
from activator.proxy.message import own_responses
from activator.proxy.message.error_forms import negotiate
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request


def send_own_response(
    context: StreamContext, stream: Stream, request: Request, response: OwnResponse
) -> None:
    """Respond to a probe, or to a client beyond the limit of connections.

    Arguments:
        context: the context of the connection's streams.
        stream: the stream of the request.
        request: the request.
        response: the response as plain text.
    """
    response = negotiate(response, request.lines)
    _send(context, stream, response, bodiless=request.method == b"HEAD" or not response.body)


def send_refusal(context: StreamContext, stream: Stream, error: FramingError) -> None:
    """Respond to a malformed or refused request; the response names the error, as in HTTP/1.

    RST_STREAM follows the response to a malformed request (RFC 9113 section 8.1.1). It waits for
    the end of the request if that comes soon, see ``Http2Client.on_half_closed``.

    Arguments:
        context: the context of the connection's streams.
        stream: the stream of the request.
        error: the error; it decides the status.
    """
    if error.status == HTTPStatus.BAD_REQUEST:
        stream.fault = ErrorCode.PROTOCOL_ERROR
    response = negotiate(own_responses.refused(error.status, str(error)), error.block)
    _send(context, stream, response, bodiless=error.to_head)


def _send(context: StreamContext, stream: Stream, response: OwnResponse, *, bodiless: bool) -> None:
    block = own_response_block(response, context.services.date())
    context.link.write_headers(stream, block, ended=bodiless)
    if not bodiless:
        stream.send(response.body, b"")
    context.exchange_done(stream)
