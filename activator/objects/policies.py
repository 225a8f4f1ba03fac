"""Reads the annotations that choose the policies of a revision and of its requests.

Pure. Knative has no counterpart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from itertools import islice
from typing import Final, TypeVar
from urllib.parse import urlsplit

from activator.objects.fields import Field, Problems, show
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

PRIORITY: Final = "activator.dev/priority"
PRIORITY_TRUST: Final = "activator.dev/priority-trust"
FAIR_BY: Final = "activator.dev/fair-by"
FAIR_NAMES: Final = "activator.dev/fair-names"
#: All annotations of this module.
QUEUE_ORDER_ANNOTATIONS: Final = (PRIORITY, PRIORITY_TRUST, FAIR_BY, FAIR_NAMES)

#: The name of a header field is a token (RFC 9110 section 5.6.2).
_HEADER: Final = re.compile(r"header:([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64})")
_FLOWS: Final = "header:NAME or client-ip, where NAME is a header field"


def parse_queue_order(annotations: Field) -> QueueOrder | None:
    """Return the order that annotations choose; None for the order of arrival.

    Arguments:
        annotations: of a Revision or a Service.

    Raises:
        ManifestError: a value is not allowed; the error lists the allowed ones. One error names all
            wrong values. An empty value is no value.
    """
    problems = Problems()
    priority = problems.read(lambda: annotations.at(PRIORITY).one_of(NAMES))
    trusts = problems.read(lambda: switch(annotations.at(PRIORITY_TRUST))) or False
    fair_by = problems.read(lambda: _flow(annotations.at(FAIR_BY)))
    shows = problems.read(lambda: switch(annotations.at(FAIR_NAMES))) or False
    if not (priority or trusts) and fair_by is None:
        return problems.settle(None)
    return problems.settle(
        QueueOrder(
            has_classes=bool(priority) or trusts,
            priority=NAMES.index(priority) if priority else NORMAL,
            trusts_header=trusts,
            fair_by=fair_by,
            shows_names=shows,
        )
    )


def _flow(field: Field) -> FlowKey | None:
    text = field.text()
    if not text.strip():
        return None
    if text == "client-ip":
        return FlowKey()
    found = _HEADER.fullmatch(text)
    if found is None:
        field.expected(_FLOWS)
    return FlowKey(found[1].lower().encode("ascii"))


# Reads the annotations for requests without a pod: waking, authorization, and waiting clients.

WHILE_WAITING: Final = "activator.dev/while-waiting"
PAGE_AFTER_SECONDS: Final = "activator.dev/page-after-seconds"
PAGE_TEMPLATE: Final = "activator.dev/page-template"
HEARTBEAT_SECONDS: Final = "activator.dev/heartbeat-seconds"
WAKE_METHODS: Final = "activator.dev/wake-methods"
WAKE_NOT_USER_AGENTS: Final = "activator.dev/wake-not-user-agents"
WAKE_NOT_PATHS: Final = "activator.dev/wake-not-paths"
WAKE_REQUIRES_HEADER: Final = "activator.dev/wake-requires-header"
ASLEEP_STATUS: Final = "activator.dev/asleep-status"
AUTH_URL: Final = "activator.dev/auth-url"
AUTH_ALWAYS: Final = "activator.dev/auth-always"
AUTH_CACHE_SECONDS: Final = "activator.dev/auth-cache-seconds"
AUTH_CACHE_KEY: Final = "activator.dev/auth-cache-key"
AUTH_RESPONSE_HEADERS: Final = "activator.dev/auth-response-headers"
PROFILE: Final = "activator.dev/profile"
#: A profile of Services: that of OpenAI, and how ``activator scale`` puts vLLM to sleep.
VLLM_SLEEP: Final = "vllm-sleep"
_PROFILES: Final = {Profile.OPENAI.value: Profile.OPENAI, VLLM_SLEEP: Profile.OPENAI}
MODELS: Final = "activator.dev/models"
WAIT_SECONDS: Final = "activator.dev/wait-seconds"
_WAITING: Final = (WHILE_WAITING, PAGE_AFTER_SECONDS, PAGE_TEMPLATE, HEARTBEAT_SECONDS)
_WAKE: Final = (
    WAKE_METHODS,
    WAKE_NOT_USER_AGENTS,
    WAKE_NOT_PATHS,
    WAKE_REQUIRES_HEADER,
    ASLEEP_STATUS,
)
_AUTH: Final = (AUTH_URL, AUTH_ALWAYS, AUTH_CACHE_SECONDS, AUTH_CACHE_KEY, AUTH_RESPONSE_HEADERS)
#: All annotations of this module.
REQUEST_POLICIES_ANNOTATIONS: Final = (*_WAITING, *_WAKE, *_AUTH, PROFILE, MODELS, WAIT_SECONDS)

ASLEEP_STATUSES: Final = ("503", "200", "204")
_Word = TypeVar("_Word", bound=StrEnum)
#: The most members of a list; each is compared with each request that would have to wait.
MOST_MEMBERS: Final = 64
_MOST_CHARACTERS: Final = 200
#: A method and the name of a header field are tokens (RFC 9110 sections 9.1 and 5.6.2).
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
#: Fields that frame a message or belong to one hop. The activator reads them before any rule.
_OF_ONE_HOP: Final = frozenset(
    (
        *("connection", "content-length", "expect", "keep-alive", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade"),
    )
)
#: Names of fields that may identify the client. Others describe the request, its body or its
#: hops. No server confuses two such names, except by their case.
_ABOUT_CLIENT: Final = re.compile(
    r"(?!(?:activator|content|k|knative|proxy)-)(?!(?:connection|expect|host|http2-settings|"
    r"keep-alive|te|trailer|transfer-encoding|upgrade|x-forwarded-for)$)[0-9a-z-]{1,64}",
    re.IGNORECASE | re.ASCII,
)
_PRINTABLE: Final = re.compile(r"[ -~]+")
_PATH: Final = re.compile(r"/[!-~]*")
_URL: Final = re.compile(r"[!-~]{1,2000}")
#: A key of a ConfigMap.
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_NUMBER: Final = re.compile(r"\d{1,6}(\.\d{1,3})?", re.ASCII)
_DAY: Final = 86_400.0


def parse_request_policies(annotations: Field) -> RequestPolicies | None:
    """Return the policies that annotations choose; None without any.

    Arguments:
        annotations: of a Revision or a Service.

    Raises:
        ManifestError: a value is not allowed; the error lists the allowed ones. One error names all
            wrong values. An empty value is no value.
    """
    problems, ids = Problems(), "a list of ids of models, as in llama-3-8b,embed"
    models = problems.read(lambda: _list(annotations.at(MODELS), _PRINTABLE.fullmatch, ids)) or ()
    named = problems.read(lambda: annotations.at(PROFILE).one_of(tuple(_PROFILES), strip=True))
    profile = _PROFILES.get((named or "").strip())
    if models:
        profile = Profile.OPENAI
    waiting = problems.read(lambda: _waiting(annotations, profile))
    wake = problems.read(lambda: _wake(annotations))
    authorization = problems.read(lambda: _authorization(annotations))
    seconds = problems.read(lambda: _seconds(annotations.at(WAIT_SECONDS), 1, _DAY, 0.0))
    chosen = RequestPolicies(waiting, wake, authorization, profile, seconds or 0.0, models)
    return problems.settle(None if chosen == RequestPolicies() else chosen)


def _waiting(annotations: Field, profile: Profile | None) -> WhileWaiting | None:
    field, problems = annotations.at(WHILE_WAITING), Problems()
    modes = tuple(WaitMode)
    what = f"a list of {', '.join(modes)}"
    words = problems.read(lambda: _list(field, modes.__contains__, what)) or ()
    after, every = annotations.at(PAGE_AFTER_SECONDS), annotations.at(HEARTBEAT_SECONDS)
    page_after = problems.read(lambda: _seconds(after, 0, 300, PAGE_AFTER))
    heartbeat_every = problems.read(lambda: _seconds(every, 1, 300, HEARTBEAT_EVERY))
    template = problems.read(lambda: _annotation_key(annotations.at(PAGE_TEMPLATE))) or ""
    if not words and profile is Profile.OPENAI:
        words = (WaitMode.HEARTBEAT.value,)
    if not words:
        return problems.settle(None)
    return problems.settle(
        WhileWaiting(
            tuple(map(WaitMode, words)),
            PAGE_AFTER if page_after is None else page_after,
            heartbeat_every or HEARTBEAT_EVERY,
            template,
        )
    )


def _wake(annotations: Field) -> WakeRules | None:
    problems, asleep = Problems(), annotations.at(ASLEEP_STATUS)

    def members(name: str, allows: Callable[[str], object], what: str) -> tuple[bytes, ...]:
        found = problems.read(lambda: _list(annotations.at(name), allows, what)) or ()
        return tuple(each.encode("ascii") for each in found)

    rules = WakeRules(
        members(WAKE_METHODS, _is_method, "a list of methods, as in GET,POST"),
        tuple(
            each.lower()
            for each in members(WAKE_NOT_USER_AGENTS, _PRINTABLE.fullmatch, "a list of ASCII texts")
        ),
        members(WAKE_NOT_PATHS, _PATH.fullmatch, "a list of paths, as in /health,/metrics"),
        problems.read(lambda: _header(annotations.at(WAKE_REQUIRES_HEADER))) or b"",
        int(problems.read(lambda: asleep.one_of(ASLEEP_STATUSES, strip=True)) or 503),
    )
    return problems.settle(None if rules == WakeRules() else rules)


def _authorization(annotations: Field) -> Authorization | None:
    # The safe default of each is the one that allows least: no server, each request, no cache.
    problems, cache = Problems(), annotations.at(AUTH_CACHE_SECONDS)
    url = problems.read(lambda: _url(annotations.at(AUTH_URL)))
    always = problems.read(lambda: switch(annotations.at(AUTH_ALWAYS))) is not False
    seconds = problems.read(lambda: _seconds(cache, 0, 3600, 0.0)) or 0.0
    key = problems.read(lambda: _names(annotations.at(AUTH_CACHE_KEY)))
    headers = problems.read(lambda: _names(annotations.at(AUTH_RESPONSE_HEADERS)))
    if url == "":
        return problems.settle(None)
    if headers is None:
        url, always = None, True  # a pod would trust fields that clients forge
    if key is None:
        seconds = 0.0
    return problems.settle(Authorization(url or "", always, seconds, key or (), headers or ()))


# -- values ---------------------------------------------------------------------------------------


def switch(field: Field) -> bool:
    """Return whether an annotation is ``true``; one that is absent or empty is not.

    Raises:
        ManifestError: it is something else than ``true`` or ``false``.
    """
    return field.one_of(("true", "false")) == "true"


def word(field: Field, words: type[_Word]) -> _Word | None:
    """Return the word of an annotation; None if it is absent or empty.

    Raises:
        ManifestError: it is none of the words.
    """
    text = field.one_of(tuple(words), strip=True)
    return words(text) if text else None


def _is_method(text: str) -> bool:
    return text == text.upper() and _TOKEN.fullmatch(text) is not None


def _list(field: Field, allows: Callable[[str], object], what: str) -> tuple[str, ...]:
    """Return the members of a list with commas, each once and in order."""
    members = dict.fromkeys(filter(None, (each.strip() for each in field.text().split(","))))
    if len(members) > MOST_MEMBERS:
        field.fail(f"expected at most {MOST_MEMBERS} members, got {len(members)}")
    if not all(len(each) <= _MOST_CHARACTERS and allows(each) for each in members):
        field.expected(what)
    return tuple(members)


def _seconds(field: Field, minimum: float, maximum: float, default: float) -> float:
    text = field.text().strip()
    if not text:
        return default
    if not _NUMBER.fullmatch(text) or not minimum <= float(text) <= maximum:
        field.expected(f"a number of seconds from {minimum:g} to {maximum:g}")
    return float(text)


def _annotation_key(field: Field) -> str:
    text = field.text().strip()
    if text and not _KEY.fullmatch(text):
        field.expected("a key of the ConfigMap activator-pages, as in shop.html")
    return text


def _header(field: Field) -> bytes:
    text = field.text().strip()
    if text and (not _TOKEN.fullmatch(text) or text.lower() in _OF_ONE_HOP):
        field.expected("the name of an end-to-end header field, as in Authorization")
    return text.lower().encode("ascii")


def _names(field: Field) -> tuple[bytes, ...]:
    """Return the names of header fields in lower case."""
    what = "a list of names of end-to-end header fields with letters, digits and -, as in X-User"
    names = _list(field, _ABOUT_CLIENT.fullmatch, what)
    return tuple(dict.fromkeys(each.lower().encode() for each in names))


def _url(field: Field) -> str:
    text = field.text().strip()
    if not text:
        return ""
    try:
        is_good = _is_url(text)
    except ValueError:
        is_good = False
    if not is_good:
        field.expected("an http or https URL, as in http://auth.example.svc:8080/check")
    return text


def _is_url(text: str) -> bool:
    parts = urlsplit(text)
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and parts.port != 0
        and parts.username is None
        and not parts.fragment
        and _URL.fullmatch(text) is not None
    )


# Reads the annotations that choose a revision's policies: pods, limits, order, waiting clients.
#
# It knows no load balancing policy by name; ``throttler.balancing`` does.

#: The names of all annotations of this project begin with it.
PREFIX: Final = "activator.dev/"
LOAD_BALANCING: Final = "activator.dev/load-balancing"
HASH_KEY: Final = "activator.dev/hash-key"
STICKY: Final = "activator.dev/sticky"
STICKY_OVERFLOW: Final = "activator.dev/sticky-overflow"
ADAPTIVE: Final = "activator.dev/adaptive-concurrency"
#: The annotations about the pod of each request (``Policies.places_like``).
PLACING: Final = (LOAD_BALANCING, HASH_KEY, STICKY, STICKY_OVERFLOW, ADAPTIVE)
#: The annotations about each request (``Policies.concern_each``).
OF_EACH: Final = (*PLACING, AUTH_ALWAYS, AUTH_RESPONSE_HEADERS)
#: The annotations about requests of HTTP, which a TCP Service does not have.
OF_HTTP: Final = (*(ADAPTIVE, PRIORITY_TRUST, *_WAITING, *_WAKE, *_AUTH, PROFILE, MODELS),)
#: The annotations whose value names a part of a request; a connection has only ``client-ip``.
KEYS: Final = (HASH_KEY, STICKY, FAIR_BY)
#: All annotations that select policies.
ANNOTATIONS: Final = (
    *PLACING,
    *QUEUE_ORDER_ANNOTATIONS,
    *REQUEST_POLICIES_ANNOTATIONS,
)

#: The form of a key. The name of a header field is a token (RFC 9110 section 5.6.2).
_NAME: Final = "where NAME is a header field"
#: The words of each annotation that names a part of the request, beside ``header:NAME``.
_HASH_KINDS: Final = (KeyKind.CLIENT_IP, KeyKind.PATH)
_STICKY_KINDS: Final = (KeyKind.COOKIE, KeyKind.CLIENT_IP)
_KEYS: Final = f"header:NAME, client-ip or path, {_NAME}"
_STICKY_KEYS: Final = f"cookie, header:NAME or client-ip, {_NAME}"

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
    load_balancing, hash_key = annotations.at(LOAD_BALANCING), annotations.at(HASH_KEY)
    overflow, adaptive = annotations.at(STICKY_OVERFLOW), annotations.at(ADAPTIVE)
    problems = Problems()
    policies = Policies(
        problems.read(lambda: load_balancing.one_of(POLICIES)) or "",
        problems.read(lambda: _key(hash_key, _HASH_KINDS, _KEYS)),
        problems.read(lambda: _key(annotations.at(STICKY), _STICKY_KINDS, _STICKY_KEYS)),
        problems.read(lambda: word(overflow, Overflow)) or Overflow.OTHER,
        problems.read(lambda: word(adaptive, AdaptiveMode)) or AdaptiveMode.OFF,
        problems.read(lambda: parse_queue_order(annotations)),
        problems.read(lambda: parse_request_policies(annotations)),
    )
    name = policies.load_balancing
    if name and POLICIES[name].wants_key and (policies.sticky or not policies.hash_key):
        if not problems:  # else the wrong value may be that of the other annotation
            wrong, wanted = hash_key, f"{_KEYS}, since {LOAD_BALANCING} is {name}"
            if policies.sticky:
                wrong, wanted = (
                    load_balancing,
                    f"another policy, since {STICKY} is {policies.sticky}",
                )
            problems.read(lambda: wrong.expected(wanted))
        policies = replace(policies, load_balancing="")
    return problems.settle(policies)


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
        name: "".join(PREFIX + near for near in get_close_matches(word, words, 1))
        for name in ours
        if (word := name[len(PREFIX) :]) not in words
    }


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


def _key(field: Field, kinds: tuple[KeyKind, ...], allowed: str) -> HashKey | None:
    text = field.text()
    if not text.strip():
        return None
    if text in kinds:
        return HashKey(kind=KeyKind(text))
    found = _HEADER.fullmatch(text)
    if found is None:
        field.expected(allowed)
    return HashKey(found[1].lower().encode("ascii"))
