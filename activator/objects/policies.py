"""Reads the annotations that choose the policies of a revision and of its requests.

Pure. Knative has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from activator.objects.fields import Field, Problems, show
from activator.objects.readers import Number, Reader, Text, Words, enum_of, members, switch, words
from throttler.balancing import POLICIES
from throttler.model import (
    NO_POLICIES,
    AdaptiveMode,
    FlowKey,
    HashKey,
    KeyKind,
    Overflow,
    Policies,
    QueueOrder,
)
from throttler.request_policies import (
    HEARTBEAT_EVERY,
    NAMES,
    NORMAL,
    PAGE_AFTER,
    Authorization,
    Profile,
    RequestPolicies,
    WaitMode,
    WakeRules,
    WhileWaiting,
)

T = TypeVar("T")

#: The names of all annotations of this project begin with it.
PREFIX: Final = "activator.dev/"
LOAD_BALANCING: Final = "activator.dev/load-balancing"
HASH_KEY: Final = "activator.dev/hash-key"
STICKY: Final = "activator.dev/sticky"
ADAPTIVE: Final = "activator.dev/adaptive-concurrency"
PROFILE: Final = "activator.dev/profile"
#: A profile of Services: that of OpenAI, and how ``activator scale`` puts vLLM to sleep.
VLLM_SLEEP: Final = "vllm-sleep"
_PROFILES: Final = {Profile.OPENAI.value: Profile.OPENAI, VLLM_SLEEP: Profile.OPENAI}
#: The annotations about each request (``Policies.concern_each``).
OF_EACH: Final = (
    *(LOAD_BALANCING, HASH_KEY, STICKY, f"{PREFIX}sticky-overflow", ADAPTIVE),
    *(f"{PREFIX}auth-always", f"{PREFIX}auth-response-headers"),
)
#: The most members of a list; each is compared with each request that would have to wait.
_MOST_MEMBERS: Final = 64
#: The forms of a hash key, for people.
KEY_FORMS: Final = "header:NAME, client-ip or path, where NAME is a header field"
#: The name of a header field is a token, as a method is (RFC 9110 sections 5.6.2 and 9.1).
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}"
#: Fields that frame a message or belong to one hop. The activator reads them before any rule.
_OF_ONE_HOP: Final = (
    "(?i:connection|content-length|expect|keep-alive|proxy-connection|te|trailer|"
    "transfer-encoding|upgrade)"
)
#: Names of fields that do not identify the client: they describe the request, its body or its
#: hops. No server confuses two other names of letters, digits and ``-``, except by their case.
_NOT_OF_CLIENT: Final = (
    "(?i:(?:activator|content|k|knative|proxy)-.*|connection|expect|host|http2-settings|"
    "keep-alive|te|trailer|transfer-encoding|upgrade|x-forwarded-for)"
)
#: Without user and fragment.
_URL: Final = (
    r"(?i:https?)://(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::(?:[1-9][0-9]{0,4})?)?"
    r"(?:[/?][!-\"$-~]*)?"
)


def _key(text: str) -> HashKey:
    kind, colon, header = text.partition(":")
    return HashKey(_lower(header)) if colon else HashKey(kind=KeyKind(kind))


def _flow(text: str) -> FlowKey:
    return FlowKey(_lower(text.partition(":")[2]))


def _lower(text: str) -> bytes:
    return text.lower().encode("ascii")


def _url(text: str) -> str:
    _ = urlsplit(text).port  # an address in brackets or a port out of range raises ValueError
    return text


def _seconds(minimum: int, maximum: int) -> Reader[float]:
    shape = Number(minimum, maximum, decimals=3)
    return Reader(shape, f"a number of seconds from {minimum} to {maximum}", float)


def _list(
    pattern: str, allowed: str, value: Callable[[str], T], but: str = ""
) -> Reader[tuple[T, ...]]:
    return members(Text(pattern, 200, but), _MOST_MEMBERS, allowed, value)


def _headers() -> Reader[tuple[bytes, ...]]:
    what = "names of end-to-end header fields with letters, digits and -, as in X-User"
    return _list("[0-9A-Za-z-]{1,64}", what, _lower, _NOT_OF_CLIENT)


_HEADER: Final = f"header:{_TOKEN}"
#: The reader of each annotation that selects policies.
READERS: Final[Mapping[str, Reader[Any]]] = {
    LOAD_BALANCING: words({name: name for name in POLICIES}),
    HASH_KEY: Reader(Text(f"client-ip|path|{_HEADER}"), KEY_FORMS, _key),
    STICKY: Reader(
        Text(f"cookie|client-ip|{_HEADER}"),
        "cookie, header:NAME or client-ip, where NAME is a header field",
        _key,
    ),
    f"{PREFIX}sticky-overflow": enum_of(Overflow),
    ADAPTIVE: enum_of(AdaptiveMode),
    f"{PREFIX}priority": words({name: name for name in NAMES}),
    f"{PREFIX}priority-trust": switch(),
    f"{PREFIX}fair-by": Reader(
        Text(f"client-ip|{_HEADER}"),
        "header:NAME or client-ip, where NAME is a header field",
        _flow,
    ),
    f"{PREFIX}fair-names": switch(),
    f"{PREFIX}while-waiting": members(
        Words(tuple(WaitMode)), _MOST_MEMBERS, f"of {', '.join(WaitMode)}", WaitMode
    ),
    f"{PREFIX}page-after-seconds": _seconds(0, 300),
    f"{PREFIX}page-template": Reader(
        Text("[A-Za-z0-9][A-Za-z0-9._-]{0,252}"),
        "a key of the ConfigMap activator-pages, as in shop.html",
        str,
    ),
    f"{PREFIX}heartbeat-seconds": _seconds(1, 300),
    f"{PREFIX}wake-methods": _list(
        _TOKEN.replace("a-z", ""), "methods, as in GET,POST", str.encode
    ),
    f"{PREFIX}wake-not-user-agents": _list("[ -~]+", "ASCII texts", _lower),
    f"{PREFIX}wake-not-paths": _list("/[!-~]*", "paths, as in /health,/metrics", str.encode),
    f"{PREFIX}wake-requires-header": Reader(
        Text(_TOKEN, but=_OF_ONE_HOP),
        "the name of an end-to-end header field, as in Authorization",
        _lower,
    ),
    f"{PREFIX}asleep-status": words({status: int(status) for status in ("503", "200", "204")}),
    f"{PREFIX}auth-url": Reader(
        Text(_URL, 2000), "an http or https URL, as in http://auth.example.svc:8080/check", _url, ""
    ),
    f"{PREFIX}auth-always": switch(wrong=True),
    f"{PREFIX}auth-cache-seconds": _seconds(0, 3600),
    f"{PREFIX}auth-cache-key": _headers(),
    f"{PREFIX}auth-response-headers": _headers(),
    PROFILE: words(_PROFILES),
    f"{PREFIX}models": _list("[ -~]+", "ids of models, as in llama-3-8b,embed", str),
    f"{PREFIX}wait-seconds": _seconds(1, 86_400),
}
#: All annotations that select policies.
ANNOTATIONS: Final = tuple(READERS)
#: The annotations whose value names a part of a request; a connection has only ``client-ip``.
KEYS: Final = (HASH_KEY, STICKY, f"{PREFIX}fair-by")
_OF_CONNECTIONS: Final = frozenset(
    (
        *(LOAD_BALANCING, *KEYS, f"{PREFIX}sticky-overflow"),
        *(PREFIX + name for name in ("priority", "fair-names", "wait-seconds")),
    )
)
#: The annotations about requests of HTTP, which a TCP Service does not have.
OF_HTTP: Final = tuple(name for name in ANNOTATIONS if name not in _OF_CONNECTIONS)

#: The load balancing policies that need a hash key.
WANT_KEY: Final = tuple(name for name, row in POLICIES.items() if row.wants_key)
#: Parts of the errors about values that contradict each other.
SINCE_POLICY: Final = f"since {LOAD_BALANCING} is "
SINCE_STICKY: Final = f"another policy, since {STICKY} is "

#: Most unknown annotations of one object that are named.
_SHOWN: Final = 3


def parse(annotations: Field) -> Policies:
    """Return the policies that annotations choose.

    Arguments:
        annotations: of a Revision, or of a Service.

    Raises:
        ManifestError: a value is not allowed (the error lists the allowed ones), or a policy has no
            hash key but needs one, or two annotations contradict each other. One error names all
            wrong values. An empty value is no value.
    """
    found = annotations.mapping()
    if all(found.get(name) is None for name in ANNOTATIONS):
        return NO_POLICIES
    problems = Problems()

    def read(*names: str) -> list[Any]:
        full = (PREFIX + name for name in names)
        return [problems.read(partial(READERS[name], annotations.at(name))) for name in full]

    chosen, hash_key, sticky, overflow, adaptive = read(
        *("load-balancing", "hash-key", "sticky", "sticky-overflow", "adaptive-concurrency")
    )
    if chosen in WANT_KEY and (sticky or not hash_key):
        if not problems:  # else the wrong value may be that of the other annotation
            wrong, wanted = HASH_KEY, f"{KEY_FORMS}, {SINCE_POLICY}{chosen}"
            if sticky:
                wrong, wanted = LOAD_BALANCING, f"{SINCE_STICKY}{sticky}"
            problems.read(lambda: annotations.at(wrong).expected(wanted))
        chosen = ""
    policies = Policies(
        chosen or "",
        hash_key,
        sticky,
        overflow or Overflow.OTHER,
        adaptive or AdaptiveMode.OFF,
        _queue_order(*read("priority", "priority-trust", "fair-by", "fair-names")),
        _request_policies(read),
    )
    return problems.settle(policies)


def _queue_order(
    priority: str | None, trusts: bool | None, fair_by: FlowKey | None, shows: bool | None
) -> QueueOrder | None:
    if not (priority or trusts) and fair_by is None:
        return None
    return QueueOrder(
        has_classes=bool(priority or trusts),
        priority=NAMES.index(priority) if priority else NORMAL,
        trusts_header=bool(trusts),
        fair_by=fair_by,
        shows_names=bool(shows),
    )


def _request_policies(read: Callable[..., list[Any]]) -> RequestPolicies | None:
    profile, models, seconds = read("profile", "models", "wait-seconds")
    if models:
        profile = Profile.OPENAI
    modes, page_after, template, heartbeat = read(
        *("while-waiting", "page-after-seconds", "page-template", "heartbeat-seconds")
    )
    if not modes and profile is Profile.OPENAI:
        modes = (WaitMode.HEARTBEAT,)
    after = PAGE_AFTER if page_after is None else page_after
    waiting = WhileWaiting(modes or (), after, heartbeat or HEARTBEAT_EVERY, template or "")
    methods, agents, paths, header, status = read(
        *("wake-methods", "wake-not-user-agents", "wake-not-paths", "wake-requires-header"),
        "asleep-status",
    )
    wake = WakeRules(methods or (), agents or (), paths or (), header or b"", status or 503)
    authorization = _authorization(
        *read("auth-url", "auth-always", "auth-cache-seconds"),
        *read("auth-cache-key", "auth-response-headers"),
    )
    chosen = RequestPolicies(
        waiting if modes else None,
        None if wake == WakeRules() else wake,
        authorization,
        profile,
        seconds or 0.0,
        models or (),
    )
    return None if chosen == RequestPolicies() else chosen


def _authorization(
    url: str | None,
    always: bool | None,
    seconds: float | None,
    key: tuple[bytes, ...] | None,
    headers: tuple[bytes, ...] | None,
) -> Authorization | None:
    # The safe default of each is the one that allows least: no server, each request, no cache.
    if url is None:
        return None
    if headers == ():
        url, always = "", True  # a pod would trust fields that clients forge
    if key == ():
        seconds = 0.0
    return Authorization(url, bool(always), seconds or 0.0, key or (), headers or ())


def unknown(annotations: Field, known: Iterable[str]) -> dict[str, str]:
    """Return the annotations of this project that nothing reads.

    Arguments:
        known: the names of the annotations that some module reads.

    Returns:
        For each name the most similar known one; empty where none is similar.
    """
    # Without the prefix, which would make all names similar.
    words = [name.removeprefix(PREFIX) for name in known]
    ours = [str(name) for name in annotations.mapping() if str(name).startswith(PREFIX)]
    return {
        name: "".join(PREFIX + near for near in _near(word, words))
        for name in ours
        if (word := name[len(PREFIX) :]) not in words
    }


def _near(word: str, words: Collection[str]) -> list[str]:
    """Return the most similar word, if one is similar; first among words with all parts of it.

    So ``wake-paths`` leads to ``wake-not-paths``, not to ``wake-patch``.
    """
    parts = set(word.split("-"))
    longer = [each for each in words if len(parts) > 1 and parts < set(each.split("-"))]
    return get_close_matches(word, longer, 1) or get_close_matches(word, words, 1)


def without_readers(annotations: Field, known: Iterable[str]) -> list[str]:
    """Return some unknown annotations, each as a sentence without a full stop."""
    return [
        f"the annotation {show(name)} is unknown and has no effect"
        + (f"; did you mean {near}?" if near else "")
        for name, near in islice(unknown(annotations, known).items(), _SHOWN)
    ]


def without_effect(policies: Policies, concurrency: int, setting: str) -> str:
    """Return which policy has no effect, as a sentence without a full stop; empty if each has one.

    Arguments:
        concurrency: the limit of each pod, 0 for none.
        setting: the name of the field or annotation that has this limit.
    """
    if not concurrency or policies.adaptive is AdaptiveMode.OFF:
        return ""
    return f"the annotation {ADAPTIVE} has no effect, since {setting} is {concurrency}"
