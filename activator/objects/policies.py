"""Reads the annotations that choose a revision's load balancing policy.

The module is pure. It knows no policy by name; ``throttler.balancing`` does. Knative has no
counterpart.
"""

from __future__ import annotations

import re
from typing import Final

from activator.objects.fields import Field, Problems
from throttler.balancing import POLICIES
from throttler.model import NO_POLICIES, HashKey, Policies

LOAD_BALANCING: Final = "activator.dev/load-balancing"
HASH_KEY: Final = "activator.dev/hash-key"

#: The form of a hash key. The name of a header field is a token (RFC 9110 section 5.6.2).
_HEADER: Final = re.compile(r"header:([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64})")
_KEYS: Final = "header:NAME, where NAME is a header field"


def parse(annotations: Field) -> Policies:
    """Return the policies that annotations choose.

    Arguments:
        annotations: of a Revision object.

    Raises:
        ManifestError: a value is not allowed (the error lists the allowed ones), or a policy has no
            hash key but needs one. One error names both values. An empty value is no value.
    """
    load_balancing = annotations.at(LOAD_BALANCING)
    hash_key = annotations.at(HASH_KEY)
    if load_balancing.value is None and hash_key.value is None:
        return NO_POLICIES
    problems = Problems()
    name, key = (
        problems.read(lambda: _policy(load_balancing)),
        problems.read(lambda: _key(hash_key)),
    )
    problems.fail()
    assert name is not None
    if key is None and name and POLICIES[name].wants_key:
        hash_key.expected(f"{_KEYS}, since {LOAD_BALANCING} is {name}")
    return Policies(name, key)


def _policy(field: Field) -> str:
    name = field.text()
    if not name.strip():
        return ""
    if name not in POLICIES:
        field.expected(f"one of {', '.join(POLICIES)}")
    return name


def _key(field: Field) -> HashKey | None:
    text = field.text()
    if not text.strip():
        return None
    found = _HEADER.fullmatch(text)
    if found is None:
        field.expected(_KEYS)
    return HashKey(found[1].lower().encode("ascii"))
