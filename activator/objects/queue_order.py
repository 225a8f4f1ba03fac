"""Reads the annotations that choose how a revision's queue orders requests.

Pure. Knative has no counterpart.
"""

from __future__ import annotations

import re
from typing import Final

from activator.objects.fields import Field, Problems
from activator.objects.request_policies import switch
from throttler.model import FlowKey, QueueOrder
from throttler.request_policies import NAMES, NORMAL

PRIORITY: Final = "activator.dev/priority"
PRIORITY_TRUST: Final = "activator.dev/priority-trust"
FAIR_BY: Final = "activator.dev/fair-by"
FAIR_NAMES: Final = "activator.dev/fair-names"
#: All annotations of this module.
ANNOTATIONS: Final = (PRIORITY, PRIORITY_TRUST, FAIR_BY, FAIR_NAMES)

#: The name of a header field is a token (RFC 9110 section 5.6.2).
_HEADER: Final = re.compile(r"header:([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64})")
_FLOWS: Final = "header:NAME or client-ip, where NAME is a header field"


def parse(annotations: Field) -> QueueOrder | None:
    """Return the order that annotations choose; None for the order of arrival.

    Arguments:
        annotations: of a Revision or a Service.

    Raises:
        ManifestError: a value is not allowed; the error lists the allowed ones. One error names all
            wrong values. An empty value is no value.
    """
    problems = Problems()
    priority = problems.read(lambda: _priority(annotations.at(PRIORITY)))
    trusts = problems.read(lambda: switch(annotations.at(PRIORITY_TRUST))) or False
    fair_by = problems.read(lambda: _flow(annotations.at(FAIR_BY)))
    shows = problems.read(lambda: switch(annotations.at(FAIR_NAMES))) or False
    if priority is None and not trusts and fair_by is None:
        return problems.settle(None)
    return problems.settle(
        QueueOrder(
            has_classes=priority is not None or trusts,
            priority=NORMAL if priority is None else priority,
            trusts_header=trusts,
            fair_by=fair_by,
            shows_names=shows,
        )
    )


def _priority(field: Field) -> int | None:
    name = field.text()
    if not name.strip():
        return None
    if name not in NAMES:
        field.expected(f"one of {', '.join(NAMES)}")
    return NAMES.index(name)


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
