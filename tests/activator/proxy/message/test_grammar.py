"""The grammar of HTTP/1: well-formed heads, their lines, and the framing of bodies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from string import ascii_letters, digits

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.message import request as requests
from activator.proxy.message import response as responses
from activator.proxy.message.fields import (
    RECURRING,
    REQUEST_FIELDS,
    RESPONSE_FIELDS,
)
from activator.proxy.message.grammar import (
    MAX_EXTENSION_BYTES,
    MAX_TRAILER_BYTES,
    MEMO_LINE_BYTES,
    MEMO_LINES,
    MEMO_NAME_BYTES,
    MEMO_NAMES,
    REQUEST_LINES,
    RESPONSE_LINES,
    Body,
    ChunkedBody,
    CloseBody,
    FramingError,
    KnownLines,
    LengthBody,
    MessageHead,
    PodChunkedBody,
    check_request,
    check_response,
    chunk,
)
from activator.proxy.message.request import RequestLimits, read_request
from activator.proxy.message.response import read_response
from tests.rows import in_one_test, naming

GOOD_REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: caf\xe9\r\n\r\n",
]


@pytest.mark.parametrize("head", GOOD_REQUESTS)
def test_a_good_request_passes(head):
    check_request(head)


@in_one_test(
    "head",
    [
        b"GET / HTTP/1.1\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\nX : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nX\r\n\r\n",
        b"GET / HTTP/1.1\r\n: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"GET / HTTP/3.1\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ],
)
def test_a_malformed_request_is_refused_with_400(head):
    with pytest.raises(FramingError) as caught:
        check_request(head)
    assert caught.value.status == 400
    check_request(GOOD_REQUESTS[0])


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.0 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_good_response_passes(head):
    check_response(head)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\nX: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        b"<html>\r\n\r\n",
    ],
)
def test_a_malformed_response_is_refused_with_502(head):
    with pytest.raises(FramingError) as caught:
        check_response(head)
    assert caught.value.status == 502


LIMITS = RequestLimits()


def split(
    known: KnownLines, start: bytes, lines: Sequence[bytes]
) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Return the start line, all fields that the proxy reads, and the other lines."""
    head = MessageHead(known, b"\r\n".join((start, *lines, b"", b"")))
    return head.start, dict(head.fields), head.block


def test_made_up_names_fill_no_memory_and_change_no_meaning():
    for turn in range(3 * MEMO_NAMES):
        made_up = b"X-%d" % turn
        lines = (made_up + b": 1", b"cOnNeCtIoN: a", b"X_Forwarded_For: e")
        assert split(REQUEST_LINES, b"GET / HTTP/1.1", lines)[1:] == (
            *({b"connection": b"a"}, b"\r\n%b: 1" % made_up),
        )
    assert len(REQUEST_LINES.names) <= MEMO_NAMES + 2 * len(REQUEST_FIELDS)


def test_a_long_name_is_not_remembered():
    known = KnownLines(frozenset((b"host",)))
    for length in (MEMO_NAME_BYTES, MEMO_NAME_BYTES + 1):
        name = b"x" * length
        assert split(known, b"", [name + b": y"]) == (b"", {}, b"\r\n" + name + b": y")
    assert max(map(len, known.names)) == MEMO_NAME_BYTES


def test_made_up_lines_fill_no_memory():
    for turn in range(2 * MEMO_LINES):
        agent = b"User-Agent: a/%d" % turn
        head = b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n" % agent
        for _ in range(2):
            assert read_request(head, LIMITS).lines == b"\r\n" + agent
        assert agent in REQUEST_LINES.lines
    assert len(REQUEST_LINES.lines) <= MEMO_LINES
    long = b"User-Agent: " + b"a" * MEMO_LINE_BYTES
    read_request(b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n" % long, LIMITS)
    assert long not in REQUEST_LINES.lines


@in_one_test(
    "line",
    [
        *(b"Authorization: Bearer a", b"Cookie: a=b", b"Proxy-Authorization: a", b"X-Api-Key: a"),
        *(b"X-Forwarded-For: 192.0.2.1", b"Forwarded: for=192.0.2.1", b"X-Request-Id: 1"),
        *(b"Referer: https://a/?token=b", b"Traceparent: 00-0-0-01", b"X-Forwarded-Client-Cert: a"),
    ],
)
def test_no_secret_and_nothing_about_a_person_is_remembered(line):
    read_request(b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n" % line, LIMITS)
    assert line not in REQUEST_LINES.lines


def test_no_secret_of_a_response_is_remembered():
    secrets = (b"Set-Cookie: a=b", b"Location: /?token=a", b"ETag: a", b"WWW-Authenticate: a")
    head = b"\r\n".join((b"HTTP/1.1 200 OK", b"Content-Length: 0", *secrets, b"", b""))
    read_response(head, to_head=False)
    assert not RESPONSE_LINES.lines.keys() & set(secrets)


@pytest.mark.parametrize("line", [b"User-Agent: a\x00", b"Accept: a\rb", b"Host: a\x01"])
def test_a_line_of_a_head_that_was_refused_is_not_remembered(line):
    for _ in range(2):
        with pytest.raises(FramingError):
            read_request(b"GET / HTTP/1.1\r\n%b\r\n\r\n" % line, LIMITS)
    assert line not in REQUEST_LINES.lines


@in_one_test("line", [b"X Y:", b"X Y: a", b"X-Y", b"X-Y:\x00", b" X:", b"\x01:", b"Accept: a\x00"])
def test_a_line_that_follows_as_before_is_checked_again(line):
    for _ in range(2):
        read_request(b"GET / HTTP/1.1\r\nHost: h\r\nAccept: a\r\n\r\n", LIMITS)
    for _ in range(3):
        with pytest.raises(FramingError):
            read_request(b"GET / HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n" % line, LIMITS)


@in_one_test(
    ("line", "fields", "block"),
    [
        (b"Proxy-Authorization:", {b"proxy-authorization": b""}, b""),
        (b"Proxy-Authorization: \tb \t", {b"proxy-authorization": b"b \t"}, b""),
        (b"Proxy-Authorization2: b", {}, b"\r\nProxy-Authorization2: b"),
        (b"proxy-authorization:b", {b"proxy-authorization": b"b"}, b""),
        (b"Accept: b", {}, b"\r\nAccept: b"),
    ],
)
def test_a_line_that_follows_another_one_than_before_is_not_taken_for_it(line, fields, block):
    known = KnownLines(REQUEST_FIELDS)
    found = split(known, b"GET / HTTP/1.1", [b"Proxy-Authorization: a"])
    for each in (line, line, b"Accept: a", line):
        found = split(known, b"GET / HTTP/1.1", [each])
    assert found[1:] == (fields, block)


def test_lines_that_are_cleared_are_not_kept_as_followers():
    known = KnownLines(REQUEST_FIELDS)
    for turn in range(3 * MEMO_LINES):
        lines = [b"Accept: %d" % turn, b"X-%d: 1" % (turn % 700), b"Host: %d" % (turn % 40)]
        if turn == 0:
            lines.insert(0, b"X-Forwarded-For: a")
        for _ in range(2):
            split_head = MessageHead(known, b"\r\n".join((b"GET / HTTP/1.1", *lines, b"", b"")))
            known.remember(split_head.new)
    held = {id(each) for each in (*known.lines.values(), *known.names.values())}
    for each in (known.start, *known.lines.values(), *known.names.values()):
        assert each.after is None or id(each.after) in held


def test_made_up_hosts_fill_no_memory():
    for turn in range(requests.MEMO_HOSTS + 10):
        host = b"h%d" % turn
        assert read_request(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host, LIMITS).host == host
    long = b"h" * (requests.MEMO_HOST_BYTES + 1)
    assert read_request(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % long, LIMITS).host == long
    assert len(requests.plain_hosts) <= requests.MEMO_HOSTS
    assert long not in requests.plain_hosts


def test_made_up_status_lines_fill_no_memory():
    for turn in range(responses.MEMO_STATUS_LINES + 10):
        for _ in range(2):
            head = b"HTTP/1.1 404 Not %d\r\nContent-Length: 0\r\n\r\n" % turn
            response = read_response(head, to_head=False)
            assert (response.status, response.reason) == (404, b" Not %d" % turn)
    long = b"HTTP/1.1 404 " + b"x" * responses.MEMO_STATUS_LINE_BYTES
    assert read_response(long + b"\r\n\r\n", to_head=False).status == 404
    assert len(responses.status_lines) <= responses.MEMO_STATUS_LINES
    assert long not in responses.status_lines


OURS = (
    *("Connection", "CONTENT-LENGTH", "expect", "hOsT", "Keep-Alive", "TE", "Te", "Trailer"),
    *("Transfer-Encoding", "Upgrade", "K-Network-Probe", "k-original-host", "X-Forwarded-For"),
    *("Knative-Serving-Revision", "Proxy-Connection", "Date", "HTTP2-Settings"),
)
OTHERS = ("Accept", "X-Y", "x_y", "Hos", "Hosts", "X_Forwarded_For", "content_length", "K_A", "!#$")
NAMES = st.sampled_from([*OURS, *OTHERS]) | st.text(
    "!#$&'*+.^_`|~-" + digits + ascii_letters, min_size=1, max_size=70
)
VALUES = st.text([chr(code) for code in (9, *range(0x20, 0x7F), *range(0x80, 0x100))], max_size=20)
LINES = st.lists(
    st.builds(
        lambda name, gap, value: f"{name}:{gap}{value}".encode("latin-1"),
        NAMES,
        st.sampled_from(["", " ", "\t ", "  "]),
        VALUES,
    ),
    max_size=14,
)


def by_the_rules(
    names: frozenset[bytes], start: bytes, lines: Sequence[bytes], *, request: bool
) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Split a head by the words of RFC 9112 section 5 and RFC 9110 section 5.3.

    A field line is a name, a colon, optional white space and a value. A recipient may combine
    lines of one name, in their order, by a comma and a space. Names know no case.
    """
    fields: dict[bytes, bytes] = {}
    block = b""
    for line in lines:
        colon = line.index(b":")
        name = line[:colon].lower()
        value = line[colon + 1 :]
        while value[:1] in (b" ", b"\t"):
            value = value[1:]
        if name in names:
            if name in fields:
                before = fields[name]
                while before[-1:] in (b" ", b"\t"):
                    before = before[:-1]
                value = before + b", " + value
            fields[name] = value
        elif not (request and is_mistakable(name)):
            block += b"\r\n" + line
    return start, fields, block


def is_mistakable(name: bytes) -> bool:
    dashed = name.replace(b"_", b"-")
    exact = (b"host", b"content-length", b"transfer-encoding", b"forwarded")
    return dashed != name and (
        dashed in exact or dashed.startswith((b"k-", b"knative-", b"x-forwarded-"))
    )


@settings(deadline=None, max_examples=40)
@given(st.lists(LINES, min_size=1, max_size=4))
def test_heads_are_split_by_the_rules_and_keep_each_byte(heads):
    for known, names, start in (
        (REQUEST_LINES, REQUEST_FIELDS, b"GET /a:b HTTP/1.1"),
        (RESPONSE_LINES, RESPONSE_FIELDS, b"HTTP/1.1 200 :"),
    ):
        for lines in heads:
            kept = [line for line in lines if not has_its_place(line)]
            expected = by_the_rules(names, start, kept, request=known is REQUEST_LINES)
            found = split(known, start, kept)
            assert found == expected
            assert list(found[1]) == list(expected[1])


def has_its_place(line: bytes) -> bool:
    return line.partition(b":")[0].lower() in (b"host", b"date", b"content-length")


@settings(deadline=None, max_examples=40)
@given(st.lists(LINES, min_size=1, max_size=4))
def test_a_remembered_line_says_what_it_said_first(heads):
    for lines in heads:
        data = b"\r\n".join((b"GET / HTTP/1.1", *lines, b"", b""))
        fresh = MessageHead(KnownLines(REQUEST_FIELDS, bars_lookalikes=True), data)
        known = KnownLines(REQUEST_FIELDS, bars_lookalikes=True)
        known.remember(MessageHead(known, data).new)
        again = MessageHead(known, data)
        assert not [line for line in again.unchecked[1:] if name_of(line) in RECURRING]
        assert (again.fields, again.block) == (fresh.fields, fresh.block)
        assert (again.length, again.single, again.singles) == (
            *(fresh.length, fresh.single, fresh.singles),
        )


def name_of(line: bytes) -> bytes:
    return line.partition(b":")[0].lower()


@in_one_test(
    ("lines", "length"),
    [
        ((b"Content-Length: 5",), 5),
        ((b"content-length:\t05 ",), 5),
        ((b"Content-Length: 5", b"Content-Length: 6"), 6),
        ((b"Content-Length: +5",), -1),
        ((b"Content-Length: 1_0",), -1),
        ((b"Content-Length: ",), -1),
        ((b"Content-Length: " + b"9" * 20,), -1),
        ((b"Content-Lengths: 5",), -1),
    ],
)
def test_a_length_is_read_and_what_is_none_is_left_to_the_parser(lines, length):
    for _ in range(2):
        head = MessageHead(REQUEST_LINES, b"\r\n".join((b"POST / HTTP/1.1", *lines, b"", b"")))
        assert head.length == length
        assert head.is_odd == (lines[0][:15] in (b"Content-Length:",) and len(lines) + length != 6)


def test_repeated_values_are_joined_as_one_by_one():
    lines = [b"TE: a \t", b"te:", b"TE: \t", b"X: y", b"te: b", b"Upgrade:", b"te:", b"Upgrade: c "]
    start = b"GET / HTTP/1.1"
    expected = by_the_rules(REQUEST_FIELDS, start, lines, request=True)
    assert split(REQUEST_LINES, start, lines) == expected


def test_a_head_with_too_many_fields_is_refused_before_its_names_are_looked_at():
    head = b"GET / HTTP/1.1\r\n" + b"".join(b"n%d:\r\n" % n for n in range(2000)) + b"\r\n"
    before = dict(REQUEST_LINES.names)
    with pytest.raises(FramingError) as caught:
        read_request(head, LIMITS)
    assert caught.value.status == 431
    assert before == REQUEST_LINES.names


def run(body: Body, *pieces: bytes) -> tuple[bytes, bytes | None]:
    """Feed pieces until the body is complete; join the rest."""
    payload: list[bytes] = []
    for index, piece in enumerate(pieces):
        left = body.feed(piece, payload)
        if left is not None:
            return b"".join(payload), left + b"".join(pieces[index + 1 :])
    return b"".join(payload), None


def each_byte(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


CHUNKED = b'5\r\nhello\r\n00A ; x="y;z"\r\n0123456789\r\n0;last\r\nX-Sum: 1\r\nY:\r\n\r\n'
PAYLOAD = b"hello0123456789"


@pytest.mark.parametrize("behind", [b"", b"GET / HTTP/1.1\r\n"])
@pytest.mark.parametrize(
    ("make", "wire", "payload"),
    [
        (lambda: LengthBody(5), b"hello", b"hello"),
        (ChunkedBody, CHUNKED.replace(b" ;", b";"), PAYLOAD),
        (ChunkedBody, b"0\r\n\r\n", b""),
        (ChunkedBody, b"5\r\n\r\n0\r\n\r\n0\r\n\r\n", b"\r\n0\r\n"),
    ],
)
def test_a_body_whole_and_in_single_bytes(make, wire, payload, behind):
    assert run(make(), wire + behind) == (payload, behind)
    assert run(make(), *each_byte(wire + behind)) == (payload, behind)


@pytest.mark.parametrize(
    "extension",
    [
        *(b";a", b" ; a", b"\t;\ta \t=\t b", b";a=b;c", b";a;b=c;d", b';a=""', b';a="b;c=d\xe9\t"'),
        *(b';a="\\"\\\\" ; b', b";!#$%&'*+-.^_`|~0aZ=0"),
    ],
)
@pytest.mark.parametrize("make", [ChunkedBody, PodChunkedBody])
def test_good_extensions_are_dropped(make, extension):
    wire = b"2" + extension + b"\r\nab\r\n0" + extension + b"\r\n\r\n"
    assert run(make(), wire + b"next") == (b"ab", b"next")
    assert run(make(), *each_byte(wire + b"next")) == (b"ab", b"next")


@pytest.mark.parametrize("piece", [b"a", b'"\\', b" ;", b";a="])
def test_a_long_extension_costs_no_more_than_its_length(piece):
    started = time.process_time()
    with pytest.raises(FramingError):
        run(ChunkedBody(), b"5;a=" + piece * (16_000 // len(piece)) + b"\x01\r\n")
    assert time.process_time() - started < 1.0  # a quadratic cost would be more than 10


def test_an_unfinished_body_says_so():
    for cut in range(len(CHUNKED)):
        assert run(ChunkedBody(), CHUNKED[:cut])[1] is None
    assert run(LengthBody(6), b"hello") == (b"hello", None)


def test_a_body_until_the_close_never_ends_by_itself():
    assert run(CloseBody(), b"a", b"0\r\n\r\n") == (b"a0\r\n\r\n", None)


def test_trailers_are_kept_as_they_came():
    body = ChunkedBody()
    run(body, *each_byte(CHUNKED))
    assert body.trailers == b"X-Sum: 1\r\nY:\r\n"


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.data())
def test_any_cut_of_a_chunked_body_gives_the_same(parts, data):
    wire = b"".join(chunk([part]) for part in parts) + b"0\r\nA: b\r\n\r\n" + b"next"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=10)))
    pieces = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    assert run(ChunkedBody(), *[p for p in pieces if p]) == (b"".join(parts), b"next")


@settings(deadline=None)
@given(st.binary(max_size=200), st.data())
def test_any_cut_of_a_length_body_gives_the_same(data, draw):
    length = draw.draw(st.integers(0, len(data)))
    cut = draw.draw(st.integers(0, len(data)))
    expected = (data[:length], data[length:])
    assert run(LengthBody(length), data) == expected
    if length:
        assert run(LengthBody(length), *[p for p in (data[:cut], data[cut:]) if p]) == expected


TOKENS = st.sampled_from(
    [b"0", b"5", b"a", b"F", b"\r", b"\n", b"\r\n", b";", b" ", b"\t", b"x:y", b"\0", b"-", b"0x"]
)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.one_of(TOKENS, st.binary(max_size=3)), max_size=30).map(b"".join))
def test_garbage_is_refused_or_read_alike_in_whole_and_in_single_bytes(wire):
    def outcome(*pieces: bytes) -> object:
        try:
            return run(ChunkedBody(), *pieces)
        except FramingError:
            return "refused"

    whole, single = outcome(wire), outcome(*each_byte(wire))
    # An early refusal counts as one. But no body may be read in one way and refused in another.
    assert whole == single


MALFORMED = (
    *(b"x\r\n", b"\r\n", b" 5\r\n", b"5 \r\n", b"+5\r\n", b"-1\r\n", b"0x5\r\n", b"5;\n"),
    *(b"5\n", b"5\r", b"5;a\rb\r\n", b"5;a\0\r\n", b"5;a\x7f\r\n", b"00000000000000001\r\n"),
    *(b"ffffffffffffffff\r\n", b"1\r\naa\r\n", b"1\r\na\n", b"1\r\na\r1", b"1_0\r\n"),
    *(b"0\r\nx\r\n", b"0\r\n x: y\r\n", b"0\r\nx : y\r\n", b"0\r\n: y\r\n", b"0\r\nx: \0\r\n"),
    *(b"0\r\n\n", b"0\r\nx: y\n\r\n", "٥\r\n".encode()),
    *(b"5;\r\n", b"5;bad[=x\r\n", b"5;a=\r\n", b"5;=a\r\n", b'5;a="b\r\n', b'5;a="b"c\r\n'),
    *(b"5;a b\r\n", b"5;a;\r\n", b"5;;a\r\n", b"5;a=b=c\r\n", b'5;"a"\r\n', b"5;a=b \r\n"),
    *(b'5;a="\\"\r\n', b'5;a="b\\\r\n', b"5;a\xe9\r\n", b"5;a=\xe9\r\n", b"5 a\r\n"),
)


def test_malformed_chunks_are_refused():
    for wire in MALFORMED:
        for pieces in ([wire + b"xx"], each_byte(wire + b"xx")):
            with naming(wire, len(pieces)), pytest.raises(FramingError):
                run(ChunkedBody(), *pieces)


def refused_after(body: Body, piece: bytes, at_most: int) -> int:
    """Return how many bytes the reader accepted before it refused the body."""
    for taken in range(0, at_most, len(piece)):
        try:
            body.feed(piece, [])
        except FramingError:
            return taken
    raise AssertionError(f"{at_most} bytes were taken")


@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_lines_without_end_are_refused_within_their_limits(size):
    for begin, limit in ((b"5;", MAX_EXTENSION_BYTES), (b"0\r\nX: ", MAX_TRAILER_BYTES)):
        body = ChunkedBody()
        before = limit - 1000 if size == 1 else 0  # no scan of earlier bytes
        body.feed(begin + b"a" * before, [])
        assert before + refused_after(body, b"a" * size, 10 * limit) <= limit + size


@pytest.mark.parametrize("line", [b"5;a=\x01", b"g", b"5;a b"])
def test_the_error_of_a_chunks_first_line_names_size_and_extension(line):
    for pieces in ([line + b"\r\nhello"], each_byte(line + b"\r\n")):
        with pytest.raises(FramingError, match=r"^malformed chunk size or extension$"):
            run(ChunkedBody(), *pieces)


def test_many_small_extensions_are_refused_too():
    piece = b"1;" + b"a" * 100 + b"\r\nx\r\n"
    assert refused_after(ChunkedBody(), piece, 1 << 20) < 2 * MAX_EXTENSION_BYTES


def test_many_trailers_are_refused_too():
    body = ChunkedBody()
    body.feed(b"0\r\n", [])
    assert refused_after(body, b"A: b\r\n", 1 << 20) < 2 * MAX_TRAILER_BYTES


def test_a_chunk_is_of_all_pieces():
    assert chunk([b"ab", b"", b"c"]) == b"3\r\nabc\r\n"
    assert chunk([b"a" * 26]) == b"1a\r\n" + b"a" * 26 + b"\r\n"
