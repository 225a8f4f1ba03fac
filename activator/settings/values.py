"""Parses the written forms of settings: ports, Go durations, sizes, names, TLS parameters.

Each ``Kind`` has the parser of one form, its name in ``--help``, and a description for errors. The
module must not know which settings exist, the source of a text, or any default. Knative's
counterparts: time.ParseDuration, strconv.ParseBool and resource.ParseQuantity, with which it parses
its environment.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from platform import python_version
from typing import Final, Generic, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")
#: A network of addresses.
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# One step above the range of Go's int64 of nanoseconds (292 years); keeps floats finite.
MAX_DURATION = 2**63 / 1e9

# No budget of this program is near it; a larger number is a typing mistake.
MAX_SIZE = 2**50

_SECONDS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "\u00b5s": Decimal("1e-6"),  # micro sign
    "\u03bcs": Decimal("1e-6"),  # Greek mu; Go accepts both
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_DURATION_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_MAX_DURATION_TEXT = 100  # a longer text is no duration; limits the work of the parser

_FACTORS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_SIZE = re.compile(r"([0-9]{1,18})(|[kKmMgG]|[kKmMgG]i)(|[bB])")
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_DNS_NAME = rf"{_LABEL}(?:\.{_LABEL})*"
_PATH_PREFIX = r"(?:/[-/.~!$&'()*+,;=:@%\w]{0,199})?"
_VERSION = r"v?[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}(?:[-+][0-9A-Za-z.+-]+)?"


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One written form.

    Attributes:
        parse: returns the value of a text; raises ``ValueError`` for a wrong text.
        accepts: the accepted texts, as the end of the sentence "accepted is …".
        metavar: its name in ``--help``.
    """

    parse: Callable[[str], T]
    accepts: str
    metavar: str


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration such as ``300ms``, ``1m30s``, ``1.5h`` or ``0``.

    As in time.ParseDuration, units are required except for 0, and blanks are rejected. A negative
    duration is rejected too, since no setting of this program has a use for one.

    Raises:
        ValueError: the text is not a duration.
    """
    if text == "0":
        return 0.0
    total, position = Decimal(0), 0
    while position < len(text) <= _MAX_DURATION_TEXT:
        part = _DURATION_PART.match(text, position)
        if part is None:
            break
        total += Decimal(part[1]) * _SECONDS[part[2]]
        position = part.end()
    if not text or position < len(text) or total >= MAX_DURATION:
        raise ValueError(f"not a duration: {text!r}")
    return float(total)


def parse_size(text: str) -> int:
    """Return the bytes of a size: ``65536``, ``64Ki`` or ``64KiB`` (1024), ``64k`` (1000).

    Raises:
        ValueError: the text is not a size.
    """
    match = _SIZE.fullmatch(text)
    size = int(match[1]) * _FACTORS[match[2].lower()] if match else MAX_SIZE + 1
    if size > MAX_SIZE:
        raise ValueError(f"not a size: {text!r}")
    return size


def parse_bool(text: str) -> bool:
    """Return the value of a word of Go's strconv.ParseBool.

    Raises:
        ValueError: the text is another word.
    """
    if text not in _TRUE and text not in _FALSE:
        raise ValueError(f"not a boolean: {text!r}")
    return text in _TRUE


def parse_address(text: str) -> str:
    """Return an IP address unchanged, and 127.0.0.1 for ``localhost``.

    Raises:
        ValueError: the text is neither.
    """
    if text == "localhost":
        return "127.0.0.1"
    ipaddress.ip_address(text)
    return text


def _where(parse: Callable[[str], T], holds: Callable[[T], object]) -> Callable[[str], T]:
    """Return a parser that accepts only values for which a condition holds."""

    def checked(text: str) -> T:
        value = parse(text)
        if not holds(value):
            raise ValueError(f"not accepted: {text!r}")
        return value

    return checked


def count(minimum: int, maximum: int = 2**31 - 1, note: str = "") -> Kind[int]:
    """Return the form of whole numbers; the default maximum is Go's int32, as in Knative."""
    parse = _where(_digits, lambda number: minimum <= number <= maximum)
    return Kind(parse, f"a whole number from {minimum} to {maximum}{note}", "NUMBER")


def duration(*, zero: bool = False) -> Kind[float]:
    """Return the form of Go durations, in seconds; ``zero`` says whether 0 is accepted."""
    parse = _where(parse_duration, lambda seconds: seconds or zero)
    least = "0 or more" if zero else "more than 0"
    return Kind(parse, f"a duration of {least}, such as 300ms, 45s or 1m30s", "DURATION")


def choice(*words: str) -> Kind[str]:
    """Return the form of one word of several."""
    return Kind(_where(str, words.__contains__), "one of " + ", ".join(words), "|".join(words))


def choices(*words: str) -> Kind[tuple[str, ...]]:
    """Return the form of one or more words of several, in the order of the words."""

    def parse(text: str) -> tuple[str, ...]:
        given = [word.strip() for word in text.split(",")]
        if not set(given) <= set(words):
            raise ValueError(f"unknown word: {text!r}")
        return tuple(word for word in words if word in given)

    return Kind(
        parse, f"one or more of {', '.join(words)}, separated by commas", f"{'|'.join(words)},…"
    )


def url(*schemes: str, empty: str = "") -> Kind[str]:
    """Return the form of a URL with a host and one of the schemes.

    Arguments:
        empty: the meaning of an empty text; an empty text is an error without it.
    """

    def parse(text: str) -> str:
        if text == "" and empty:
            return text
        parts = urlsplit(text)
        unwritable = any(c.isspace() or not c.isprintable() for c in text)
        if parts.scheme not in schemes or not parts.hostname or parts.port == 0 or unwritable:
            raise ValueError(f"not such a URL: {text!r}")
        return text

    kinds = " or ".join(f"{scheme}://HOST[:PORT]" for scheme in schemes)
    return Kind(parse, kinds + (f", or nothing, which means {empty}" if empty else ""), "URL")


def optional(kind: Kind[T], meaning: str) -> Kind[T | None]:
    """Return a form that also accepts an empty text as None; ``meaning`` describes that."""

    def parse(text: str) -> T | None:
        return kind.parse(text) if text else None

    return Kind(parse, f"{kind.accepts}, or nothing, which means {meaning}", kind.metavar)


def _digits(text: str) -> int:
    # int() alone would also take blanks, underscores, signs and other alphabets' digits.
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"not a number: {text!r}")
    return int(text)


def _share(text: str) -> float:
    # Above 1 is all of it, as in Go; float() alone would also take nan, blanks and underscores.
    return min(float(_PLAIN_NUMBER(text)), 1.0)


def _collector(text: str) -> str:
    # Without a scheme it is https, as Knative reads it.
    return _COLLECTOR_URL.parse(text if "://" in text else f"https://{text}")


def _matching(pattern: str, longest: int) -> Callable[[str], str]:
    """Return a parser of texts of at most so many characters that match a pattern."""
    compiled = re.compile(pattern, re.ASCII)
    return _where(str, lambda text: len(text) <= longest and compiled.fullmatch(text))


def _parts(text: str) -> Iterator[str]:
    """Yield the parts of a list with commas between; empty ones are left out."""
    return (part for each in text.split(",") if (part := each.strip()))


def _hosts(text: str) -> tuple[str, ...]:
    return tuple(OBJECT_NAME.parse(name.lower()) for name in _parts(text))


def _networks(text: str) -> tuple[Network, ...]:
    """Return the networks of a list; an address alone is a network of one address."""
    text = {"always": "0.0.0.0/0,::/0", "never": ""}.get(text, text)
    return tuple(map(ipaddress.ip_network, _parts(text)))


def _existing_folder(text: str) -> Path | None:
    if not text:
        return None
    path = Path(text)
    if "\0" in text or not path.is_dir():
        raise ValueError(f"not a folder: {text!r}")
    return path


PORT = Kind(
    count(0, 65535).parse, "a port number from 0 to 65535, where 0 picks a free one", "PORT"
)
OPTIONAL_PORT = Kind(
    optional(PORT, "no port").parse,
    "a port number from 0 to 65535, where 0 picks a free one, or nothing",
    "PORT",
)
METRICS_PORT = Kind(
    _where(_digits, lambda number: number == 0 or 1024 <= number <= 65535),
    "0, which picks a free port, or a port number from 1024 to 65535",
    "PORT",
)
ADDRESS = Kind(parse_address, "an IP address, such as 127.0.0.1, 0.0.0.0 or ::", "ADDRESS")
SIZE = Kind(
    _where(parse_size, bool), "a size in bytes of more than 0, such as 65536, 64KiB or 1Mi", "SIZE"
)
_PLAIN_NUMBER = _matching(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?", 100)
SHARE = Kind(_share, "a number, where 0 is nothing and 1 is all", "NUMBER")
_COLLECTOR_URL = url("http", "https")
COLLECTOR = Kind(
    _collector,
    "http://HOST[:PORT][/PATH], the same with https, or HOST:PORT, which is https",
    "URL",
)
BOOLEAN = Kind(parse_bool, "true or false", "true|false")
TEXT = Kind(str, "any text", "TEXT")
NAME = Kind(
    _where(str, lambda text: text and text.isprintable()),
    "a text of at least one character",
    "NAME",
)
FOLDER = Kind(_existing_folder, "the path of an existing folder", "DIR")
_MATCHING_PATH = _matching(_PATH_PREFIX, 200)
#: A slash at the end of a path prefix has no meaning.
PATH_PREFIX = Kind(
    lambda text: _MATCHING_PATH(text).rstrip("/"),
    "a path of at most 200 characters, such as /admit, or nothing",
    "PATH",
)
HOSTS = Kind(_hosts, "host names with commas between, without ports, or nothing", "NAME,…")
NETWORKS = Kind(
    _networks,
    "networks with commas between, such as 10.0.0.0/8 or fd00::/8, or always, or never",
    "CIDR,…",
)
DNS_LABEL = Kind(
    _matching(_LABEL, 63),
    "a Kubernetes name of lower-case letters, digits and -",
    "NAME",
)
OBJECT_NAME = Kind(
    _matching(_DNS_NAME, 253),
    "a Kubernetes object's name of lower-case letters, digits, - and .",
    "NAME",
)
SERVICE = Kind(
    lambda text: (
        DNS_LABEL.parse(text.partition("/")[0]),
        OBJECT_NAME.parse(text.partition("/")[2]),
    ),
    "NAMESPACE/NAME of a Service",
    "NAMESPACE/NAME",
)
DOMAIN = Kind(
    lambda text: OBJECT_NAME.parse(text.removesuffix(".")),
    "a DNS name, such as cluster.local",
    "DOMAIN",
)
VERSION = Kind(_matching(_VERSION, 100), "a version, such as v1.34.0", "VERSION")


# -- TLS parameters -------------------------------------------------------------------------------

# The names of TLS versions, cipher suites and curves are Go's, since existing Deployments of
# Knative use them. Knative's counterpart: knative.dev/pkg/network/tls.

CLIENT_AUTH_MODES: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "require": ssl.CERT_REQUIRED,
}
VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

#: Suites of TLS 1.2 that Go counts as secure, with OpenSSL's names.
_SUITES: Final = {
    f"TLS_ECDHE_{auth}_WITH_{name}": f"ECDHE-{auth}-{openssl}"
    for auth in ("ECDSA", "RSA")
    for name, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}
#: Suites of TLS 1.3, which are always all on, as in Go.
_SUITES_OF_1_3: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
OPENSSL_CURVES: Final = {
    "X25519": "X25519",
    "X25519MLKEM768": "X25519MLKEM768",
    **{f"CurveP{bits}": name for bits, name in ((256, "prime256v1"), (384, "secp384r1"))},
    **{f"P-{bits}": name for bits, name in ((256, "prime256v1"), (384, "secp384r1"))},
    "CurveP521": "secp521r1",
    "P-521": "secp521r1",
}


class TlsParameterError(ValueError):
    """Parameters that this machine's OpenSSL does not support."""


@dataclass(frozen=True, slots=True)
class TlsParameters:
    """The TLS parameters that a listener accepts.

    Attributes:
        min_version: ``1.2`` or ``1.3``; max_version: likewise, or empty for the newest.
        cipher_suites: suites of TLS 1.2 by Go's names; empty means OpenSSL's list. All suites of
            TLS 1.3 are on.
        curves: by Go's names, in order of preference; empty means OpenSSL's list.
    """

    min_version: str = "1.3"
    max_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    curves: tuple[str, ...] = ()

    def apply(self, context: ssl.SSLContext) -> list[str]:
        """Restrict a context to these parameters.

        Returns:
            One sentence for each parameter that OpenSSL applies differently.

        Raises:
            TlsParameterError: the context would accept no connection.
        """
        context.minimum_version = VERSIONS[self.min_version]
        if self.max_version:
            context.maximum_version = VERSIONS[self.max_version]
        return [*self._apply_suites(context), *self._apply_curves(context)]

    def _apply_suites(self, context: ssl.SSLContext) -> list[str]:
        if not self.cipher_suites:
            return []
        if older := [_SUITES[name] for name in self.cipher_suites if name in _SUITES]:
            context.set_ciphers(":".join(older))
        elif self.max_version == "1.2":
            raise TlsParameterError("no cipher suite of TLS 1.2 is named, and no other version on")
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        named = _SUITES_OF_1_3.intersection(self.cipher_suites)
        if self.max_version == "1.2" or named == _SUITES_OF_1_3:
            return []
        return ["the cipher suites of TLS 1.3 cannot be chosen: all of them are on"]

    def _apply_curves(self, context: ssl.SSLContext) -> list[str]:
        """Set the first curve that Python and OpenSSL know, as Python can set only one.

        A client without that curve is rejected: it must not get a curve that is not configured.
        """
        for name in self.curves:
            try:
                context.set_ecdh_curve(OPENSSL_CURVES[name])
            except (ValueError, ssl.SSLError):  # Python 3.11.2 cannot choose X25519: SSLError
                continue
            return [f"of the curves {name} alone is used"] if len(self.curves) > 1 else []
        if self.curves:
            raise TlsParameterError(
                f"Python {python_version()} with {ssl.OPENSSL_VERSION} knows no curve of "
                f"{', '.join(self.curves)}"
            )
        return []


def _names(*known: str) -> Kind[tuple[str, ...]]:
    """Return the form of a list of names, which may be empty."""
    parse = _where(lambda text: tuple(_parts(text)), frozenset(known).issuperset)
    return Kind(parse, "a list of " + ", ".join(sorted(known)), "NAME,…")


MIN_VERSION: Final = Kind(choice(*VERSIONS).parse, "1.2 or 1.3", "VERSION")
MAX_VERSION: Final = Kind(
    choice("", *VERSIONS).parse,
    "1.2 or 1.3, or nothing, which means the newest",
    "VERSION",
)
CLIENT_AUTH: Final = Kind(
    lambda text: choice(*CLIENT_AUTH_MODES).parse(text.strip().lower()),
    "none, optional or require",
    "none|optional|require",
)
CIPHER_SUITES: Final = _names(*_SUITES, *_SUITES_OF_1_3)
CURVES: Final = _names(*OPENSSL_CURVES)
