"""Reads the annotations that choose a revision's policies: pods, limits, order, waiting clients.

The module is pure. It knows no load balancing policy by name; ``throttler.balancing`` does. Knative
has no counterpart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import Final

from activator.objects import queue_order, request_policies
from activator.objects.fields import Field, Problems, show
from activator.objects.request_policies import word
from throttler.balancing import POLICIES
from throttler.model import (
    NO_POLICIES,
    AdaptiveMode,
    HashKey,
    KeyKind,
    Overflow,
    Policies,
)

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
OF_EACH: Final = (*PLACING, request_policies.AUTH_ALWAYS, request_policies.AUTH_RESPONSE_HEADERS)
#: All annotations that select policies.
ANNOTATIONS: Final = (
    *PLACING,
    *queue_order.ANNOTATIONS,
    *request_policies.ANNOTATIONS,
)

#: The form of a key. The name of a header field is a token (RFC 9110 section 5.6.2).
_HEADER: Final = re.compile(r"header:([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64})")
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
        problems.read(lambda: _policy(load_balancing)) or "",
        problems.read(lambda: _key(hash_key, _HASH_KINDS, _KEYS)),
        problems.read(lambda: _key(annotations.at(STICKY), _STICKY_KINDS, _STICKY_KEYS)),
        problems.read(lambda: word(overflow, Overflow)) or Overflow.OTHER,
        problems.read(lambda: word(adaptive, AdaptiveMode)) or AdaptiveMode.OFF,
        problems.read(lambda: queue_order.parse(annotations)),
        problems.read(lambda: request_policies.parse(annotations)),
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


def _policy(field: Field) -> str:
    name = field.text()
    if not name.strip():
        return ""
    if name not in POLICIES:
        field.expected(f"one of {', '.join(POLICIES)}")
    return name


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
