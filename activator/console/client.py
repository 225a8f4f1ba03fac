"""Asks an admin side, and says what to do where none answers: the client of our own commands.

Must not import any part of the server, nor know what is in an answer. Imports httpx only when it
asks, so that the command line stays quick. Knative has no counterpart: its activator cannot be
asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Final

from activator.console.responses import UnexpectedAnswer, printable

if TYPE_CHECKING:  # imported when somebody asks
    import httpx

REVISIONS: Final = "/api/v1/revisions"
ACTIVATOR: Final = "/api/v1/activator"

# Between two reads and in all: far above any answer on the same machine or through kubectl
# port-forward, short for somebody who waits at a prompt.
READ_TIMEOUT: Final = 5.0
TOTAL_TIMEOUT: Final = 30.0

# 10,000 revisions of 10 pods are some 50 MiB; whatever sends more is no activator.
MAX_ANSWER: Final = 256 * 2**20


class NoAnswer(Exception):
    """Nothing answers at the URL; says what was tried and how to get an activator there."""


class NotKnown(Exception):
    """An activator answers that it does not know what it was asked for."""


class Admin:
    """An activator's admin side as its clients see it.

    Arguments:
        url: an http or https URL of it, with or without a slash at the end.

    The caller enters it before it asks, as a context manager.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._session: httpx.Client

    def __enter__(self) -> Admin:
        import httpx

        # trust_env would send a question to 127.0.0.1 through a company's HTTP_PROXY.
        self._session = httpx.Client(timeout=READ_TIMEOUT, trust_env=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session.close()

    def get(self, path: str = REVISIONS) -> str:
        """Return the text of an answer.

        Raises:
            NoAnswer: nobody listens there, or nobody answers in time.
            NotKnown: the answer is a problem with the status 404.
            UnexpectedAnswer: any other status than 200, or the body is endless or no UTF-8.
        """
        import httpx

        url = self.url + path
        try:
            with self._session.stream("GET", url, headers=_ACCEPT) as response:
                _check(url, response)
                return _read(url, response.iter_bytes())
        except httpx.TimeoutException:
            raise NoAnswer(_no_answer(url, f"no answer within {READ_TIMEOUT:g} s")) from None
        except (httpx.RemoteProtocolError, httpx.DecodingError) as error:
            raise _unexpected(url, f"it does not speak HTTP/1.1: {error}") from None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            why = _ERRNO.sub("", str(error)) or type(error).__name__
            raise NoAnswer(_no_answer(url, why)) from None


#: What the system's own errors begin with.
_ERRNO: Final = re.compile(r"^\[Errno -?[0-9]+\] ")
_ACCEPT: Final = {"Accept": "application/json"}


def _check(url: str, response: httpx.Response) -> None:
    status = response.status_code
    if status == 421:
        raise UnexpectedAnswer(
            f"what answers at {url} is not known by this host name: ask by its address, or "
            f"name the host in its ACTIVATOR_ADMIN_HOSTS."
        )
    if status == 404 and response.headers.get("content-type") == "application/problem+json":
        raise NotKnown(f"{url} is not known")
    if status != 200:
        raise _unexpected(url, f"the status was {status}")


def _read(url: str, chunks: Iterator[bytes]) -> str:
    body, until = bytearray(), monotonic() + TOTAL_TIMEOUT
    for chunk in chunks:
        body += chunk
        if len(body) > MAX_ANSWER:
            raise _unexpected(url, f"the answer exceeds {MAX_ANSWER} bytes")
        if monotonic() > until:
            raise NoAnswer(_no_answer(url, f"the answer had no end within {TOTAL_TIMEOUT:g} s"))
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise _unexpected(url, "the answer is not UTF-8") from None


def _no_answer(url: str, reason: str) -> str:
    return (
        f"no activator answers at {url}: {printable(reason)}.\n"
        "Start one with `activator demo` or `activator local --manifests DIR`, or reach one in a "
        "cluster with\n"
        "  kubectl port-forward -n knative-serving deployment/activator 8080\n"
        "and leave that running. Another place is named with --admin-url or ACTIVATOR_ADMIN_URL."
    )


def _unexpected(url: str, reason: str) -> UnexpectedAnswer:
    return UnexpectedAnswer(unexpected(url, reason))


def unexpected(url: str, reason: str) -> str:
    """Return what there is to say of an answer that no activator gives."""
    return (
        f"what answers at {url} is not an activator's admin side: {printable(reason)}.\n"
        "Name the admin port (8080 unless --admin-port says otherwise) with --admin-url."
    )
