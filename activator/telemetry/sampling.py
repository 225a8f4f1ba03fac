"""Decides which requests are traced, by the samplers of OpenTelemetry.

Sources: OpenTelemetry's specification of the environment variables OTEL_TRACES_SAMPLER and
OTEL_TRACES_SAMPLER_ARG; Knative's knative.dev/pkg/observability/tracing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from activator.telemetry.trace_context import Parent

#: A decision from the parent, if there is one, and the trace's id.
Sampler = Callable[[Parent | None, int], bool]

_LOW_HALF: Final = (1 << 64) - 1


def always(parent: Parent | None, trace_id: int) -> bool:
    """Trace each request."""
    return True


def never(parent: Parent | None, trace_id: int) -> bool:
    """Trace no request."""
    return False


def by_ratio(rate: float) -> Sampler:
    """Trace a share of all traces.

    The sampler compares the lower half of the trace's id, as Go does, so each hop decides the same.

    Arguments:
        rate: from 0 to 1.
    """
    bound = round(rate * (1 << 64))
    return lambda parent, trace_id: (trace_id & _LOW_HALF) < bound


def by_parent(root: Sampler) -> Sampler:
    """Follow the parent's decision; ``root`` decides for a request without a parent."""
    return lambda parent, trace_id: parent.sampled if parent is not None else root(parent, trace_id)


_BY_WORD: Final[Mapping[str, Callable[[float], Sampler]]] = {
    "always_on": lambda rate: always,
    "always_off": lambda rate: never,
    "traceidratio": by_ratio,
    "parentbased_always_on": lambda rate: by_parent(always),
    "parentbased_always_off": lambda rate: by_parent(never),
    "parentbased_traceidratio": lambda rate: by_parent(by_ratio(rate)),
}
WORDS: Final = tuple(_BY_WORD)
"""The values of OTEL_TRACES_SAMPLER."""


def sampler(word: str, argument: float | None, rate: float) -> Sampler:
    """Return the configured sampler.

    Arguments:
        word: one of ``WORDS``; empty if OTEL_TRACES_SAMPLER is not set.
        argument: the share of OTEL_TRACES_SAMPLER_ARG, from 0 to 1; None if it is not set.
        rate: the ConfigMap's ``tracing-sampling-rate``, which the environment overrides.
    """
    if word:
        return _BY_WORD[word](1.0 if argument is None else argument)
    share = rate if argument is None else argument
    if share >= 1:
        return always
    return never if share <= 0 else by_parent(by_ratio(share))
