"""Which requests are traced: the samplers of OpenTelemetry, decided from numbers alone.

Sources: OpenTelemetry's specification of the environment variables OTEL_TRACES_SAMPLER and
OTEL_TRACES_SAMPLER_ARG; Knative's knative.dev/pkg/observability/tracing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from activator.telemetry.trace_context import Parent

#: Decides from the parent, if there is one, and the trace's id.
Sampler = Callable[[Parent | None, int], bool]

_LOW_HALF: Final = (1 << 64) - 1


def always(parent: Parent | None, trace_id: int) -> bool:
    """Trace everything."""
    return True


def never(parent: Parent | None, trace_id: int) -> bool:
    """Trace nothing."""
    return False


def by_ratio(rate: float) -> Sampler:
    """Trace a share of all traces.

    It goes by the lower half of the id, as Go does, so each hop decides the same.

    Arguments:
        rate: from 0 to 1.
    """
    bound = round(rate * (1 << 64))
    return lambda parent, trace_id: (trace_id & _LOW_HALF) < bound


def by_parent(root: Sampler) -> Sampler:
    """Do as the caller did; ``root`` decides where there is none."""
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
"""What OTEL_TRACES_SAMPLER may say."""


def sampler(word: str, argument: float | None, rate: float) -> Sampler:
    """Return the sampler that is asked for.

    Arguments:
        word: one of ``WORDS``, or empty where nobody chose.
        argument: the share that the environment asks for; None where it says nothing.
        rate: the ConfigMap's ``tracing-sampling-rate``, which the environment overrides.
    """
    if word:
        return _BY_WORD[word](1.0 if argument is None else argument)
    share = rate if argument is None else argument
    if share >= 1:
        return always
    return never if share <= 0 else by_parent(by_ratio(share))
