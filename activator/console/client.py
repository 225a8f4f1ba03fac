"""Send requests to an admin port, and read its responses field by field.

The server on a port may not be an activator. If none responds, the error says what to do; if a
field is wrong, the error names it. Must not import any part of the server, nor know the meaning of
fields. It imports httpx only for a request, so that other commands start fast. Knative has no
counterpart: its activator has no API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:  # imported for a request
    import httpx


T = TypeVar("T")


class UnexpectedResponse(Exception):
    """The response is not from an activator; the text has the difference."""


REVISIONS: Final = "/api/v1/revisions"
ACTIVATOR: Final = "/api/v1/activator"

# Between two reads, and in total. Responses on the same machine, or through kubectl port-forward,
# are much faster. The user at the prompt does not wait long.
READ_TIMEOUT: Final = 5.0
TOTAL_TIMEOUT: Final = 30.0

# 10,000 revisions of 10 pods take about 50 MiB; no activator sends more.
MAX_RESPONSE: Final = 256 * 2**20


class NoResponse(Exception):
    """No server responds at the URL; the text has the URL and the next steps."""


class NotKnown(Exception):
    """The activator responds 404: it does not know the object."""


class Refused(UnexpectedResponse):
    """The server responds with a problem (RFC 9457); the text has its detail."""


class Admin:
    """A client of an activator's admin port.

    Arguments:
        url: its http or https URL, with or without a slash at the end.
        host: the Host field; empty for the URL's own host.

    It is a context manager; the caller enters it before the first request.
    """

    def __init__(self, url: str, host: str = "") -> None:
        self.url = url.rstrip("/")
        self._headers = {**_ACCEPT, "Host": host} if host else _ACCEPT
        self._session: httpx.Client

    def __enter__(self) -> Admin:
        import httpx

        # With trust_env, a request to 127.0.0.1 could go through the HTTP_PROXY of a company.
        self._session = httpx.Client(timeout=READ_TIMEOUT, trust_env=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def get(self, path: str = REVISIONS) -> str:
        """Return the body of a response.

        Raises:
            NoResponse: no server listens there, or responds in time.
            NotKnown: the response is a problem with the status 404.
            UnexpectedResponse: another status than 200, or the body is too long or not UTF-8.
        """
        import httpx

        url = self.url + path
        try:
            with self._session.stream("GET", url, headers=self._headers) as response:
                _check(url, response)
                return _read(url, response.iter_bytes())
        except httpx.TimeoutException:
            raise _no_response(url, f"no response within {READ_TIMEOUT:g} s") from None
        except (httpx.RemoteProtocolError, httpx.DecodingError) as error:
            if str(error).startswith(_CLOSED):
                raise _no_response(url, _POD_GONE) from None
            raise unexpected(url, f"it does not speak HTTP/1.1: {error}") from None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            why = _ERRNO.sub("", str(error)) or type(error).__name__
            raise _no_response(url, why) from None


#: Prefix of errors of the operating system.
_ERRNO: Final = re.compile(r"^\[Errno -?[0-9]+\] ")
#: How httpx names a server that closes the connection before a byte of the response.
_CLOSED: Final = "Server disconnected"
_POD_GONE: Final = (
    "the server closed the connection without a response, as `kubectl port-forward` does when its "
    "pod is gone"
)
_ACCEPT: Final = {"Accept": "application/json"}


def _check(url: str, response: httpx.Response) -> None:
    status = response.status_code
    if status == 421:
        raise UnexpectedResponse(
            f"the server at {url} does not accept this host name. Use its address, or add the "
            f"name to its ACTIVATOR_ADMIN_HOSTS."
        )
    if response.headers.get("content-type") == "application/problem+json":
        if status == 404:
            raise NotKnown(f"{url} does not exist")
        problem = parse(_read(url, response.iter_bytes()))
        raise Refused(f"{url}: {problem.text('detail', default=str(status))}")
    if status != 200:
        raise unexpected(url, f"the status was {status}")


def _read(url: str, chunks: Iterator[bytes]) -> str:
    body, until = bytearray(), monotonic() + TOTAL_TIMEOUT
    for chunk in chunks:
        body += chunk
        if len(body) > MAX_RESPONSE:
            raise unexpected(url, f"the response exceeds {MAX_RESPONSE} bytes")
        if monotonic() > until:
            raise _no_response(url, f"the response had no end within {TOTAL_TIMEOUT:g} s")
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise unexpected(url, "the response is not UTF-8") from None


def _no_response(url: str, reason: str) -> NoResponse:
    return NoResponse(
        f"no activator responds at {url}: {printable(reason)}.\n"
        "Start one with `activator demo` or `activator local --manifests DIR`, or reach one in a "
        "cluster with\n"
        "  kubectl port-forward -n activator-system deployment/activator 8080\n"
        "and leave it running; with Knative, its namespace is knative-serving (-n "
        "knative-serving). In place of the KEDA HTTP add-on's interceptor, it is\n"
        "  kubectl port-forward -n keda deployment/keda-add-ons-http-interceptor 9090\n"
        "--admin-url or ACTIVATOR_ADMIN_URL names another address."
    )


def unexpected(url: str, reason: str) -> UnexpectedResponse:
    """Return the error for a response that is not from an activator."""
    return UnexpectedResponse(
        f"the server at {url} is not an activator's admin port: {printable(reason)}.\n"
        "Set --admin-url to the admin port (8080, or the value of --admin-port)."
    )


# -- the fields of a response

_SHOWN_OF_ODD_VALUE: Final = 60  # characters of a value in an error


class Json:
    """A JSON object from outside, with its path in the response.

    Each method raises ValueError if a field has another type.
    """

    __slots__ = ("_fields", "_path")

    def __init__(self, value: object, path: str) -> None:
        self._fields: dict[str, Any] = _is(value, dict, path or "the response")
        self._path = path

    def __contains__(self, name: str) -> bool:
        """Return whether the field exists and is not null."""
        return self._fields.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text without control characters, which could control the terminal.

        Arguments:
            default: value of an absent or null field; without it, such a field is an error.
        """
        return printable(self._get(name, str, default))

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a whole number."""
        return self._get(name, int, default)

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number."""
        return float(self._get(name, (int, float), default))

    def flag(self, name: str) -> bool:
        """Return whether the field is true; an absent field is false."""
        return self._fields.get(name) is True

    def node(self, name: str) -> Json | None:
        """Return an object; None if it is absent or null."""
        return Json(self._fields[name], self._at(name)) if name in self else None

    def part(self, name: str) -> Json:
        """Return an object; one without fields if it is absent or null."""
        return self.node(name) or Json({}, self._at(name))

    def nodes(self, name: str, required: bool = True) -> list[Json]:
        """Return an array of objects."""
        values = self._get(name, list, None if required else [])
        return [Json(value, f"{self._at(name)}[{i}]") for i, value in enumerate(values)]

    def texts(self, name: str) -> list[str]:
        """Return an array of texts, each without control characters."""
        values = self._get(name, list, None)
        return [printable(_is(one, str, f"{self._at(name)}[{i}]")) for i, one in enumerate(values)]

    def children(self) -> Iterator[tuple[str, Json]]:
        """Yield the name and the object of each field that is not null."""
        for name, value in self._fields.items():
            if value is not None:
                yield printable(name), Json(value, self._at(name))

    def numbers(self) -> Iterator[tuple[str, float]]:
        """Yield the name and the number of each field that is not null."""
        for name, value in self._fields.items():
            if value is not None:
                yield printable(name), self.number(name)

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield each field with its value, of any type."""
        for name, value in self._fields.items():
            yield printable(name), value

    def _get(self, name: str, kind: type[T] | tuple[type[T], ...], default: T | None) -> T:
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if name not in self._fields:
            raise ValueError(f"{self._at(name)} is missing")
        return _is(value, kind, self._at(name))

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}".lstrip(".")


def parse(text: str) -> Json:
    """Return the object of a response.

    Raises:
        ValueError: the text is not JSON, or not an object.
    """
    try:
        return Json(json.loads(text), "")
    except RecursionError as error:
        raise ValueError(str(error)) from None


def printable(text: str) -> str:
    """Return a text without control characters, which could control the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _is(value: object, kind: type[T] | tuple[type[T], ...], path: str) -> T:
    # In Python, unlike JSON, true is a number.
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(_JSON_NAMES[one] for one in kinds)
        shown = repr(value)[:_SHOWN_OF_ODD_VALUE]
        raise ValueError(f"{path}: expected {expected}, got {shown}")
    return value


_JSON_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a text",
    int: "a whole number",
    float: "a number",
}

#: An object without fields: the response of a part that was not asked.
NOTHING: Final = Json({}, "")
