"""The end of a body: the same payload for all cuts of the bytes, and no error but FramingError."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activator.proxy.message.grammar import (
    MAX_EXTENSION_BYTES,
    MAX_TRAILER_BYTES,
    Body,
    ChunkedBody,
    CloseBody,
    FramingError,
    LengthBody,
    PodChunkedBody,
    chunk,
)
from tests.rows import naming


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
