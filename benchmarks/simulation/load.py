"""Random arrivals and service times, each law with a mean that the scenario sets.

All numbers come from a ``random.Random`` with a seed. So each rule gets the same requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp, log
from random import Random
from typing import Final, NamedTuple

#: Shape of Pareto service times. Below 2 the variance is infinite, as with files on the web.
PARETO_SHAPE: Final = 1.5
#: Longest service time, in means. A client would cancel a longer request.
LONGEST: Final = 200.0
#: Standard deviation of the logarithm of lognormal service times: p99 is 6 times the mean.
LOGNORMAL_SIGMA: Final = 1.0
#: Bursts: mean seconds of each state, and the rate of each in multiples of the mean rate.
QUIET_FOR: Final = 4.0
BURST_FOR: Final = 1.0
QUIET_RATE: Final = 0.5
BURST_RATE: Final = 3.0


class Arrival(NamedTuple):
    """One request.

    Attributes:
        at: when it arrives, seconds.
        service: seconds for which a pod works on it.
        route: a random number in [0, 1), by which the ingress chooses an activator.
    """

    at: float
    service: float
    route: float


def service_times(law: str, mean: float, random: Random) -> Callable[[], float]:
    """Return a function that draws service times, seconds.

    Arguments:
        law: fixed, exponential, lognormal or pareto.
        mean: seconds; with ``pareto``, of the law before LONGEST cuts it off.
    """
    if law == "fixed":
        return lambda: mean
    if law == "exponential":
        return lambda: -mean * log(1.0 - random.random())
    if law == "lognormal":
        mu = log(mean) - LOGNORMAL_SIGMA**2 / 2
        return lambda: exp(random.gauss(mu, LOGNORMAL_SIGMA))
    if law == "pareto":
        least, longest = mean * (PARETO_SHAPE - 1) / PARETO_SHAPE, LONGEST * mean
        power = -1.0 / PARETO_SHAPE
        return lambda: min(least * (1.0 - random.random()) ** power, longest)
    raise ValueError(f"unknown law of service times: {law}")


class Rate:
    """The rate of arrivals over time, requests a second.

    Arguments:
        law: poisson, bursty (a Poisson process whose rate jumps between two values), or pareto
            (independent gaps with a heavy tail).
        mean: requests a second.
        steps: seconds and multiples of the mean from then on; a stepped load.
    """

    def __init__(
        self, law: str, mean: float, random: Random, steps: tuple[tuple[float, float], ...] = ()
    ) -> None:
        if law not in ("poisson", "bursty", "pareto"):
            raise ValueError(f"unknown law of arrivals: {law}")
        self._law = law
        self._mean = mean
        self._random = random
        self._steps = steps
        self._burst = False
        self._changes = 0.0 if law == "bursty" else float("inf")
        self.now = mean

    def factor(self, now: float) -> float:
        """Return the multiple of the mean by the steps."""
        factor = 1.0
        for begins, each in self._steps:
            if now >= begins:
                factor = each
        return factor

    def arrivals(self, until: float) -> Iterator[float]:
        """Yield the times of requests, seconds; ``now`` is the rate at each of them."""
        at = 0.0
        random = self._random.random
        while True:
            if at >= self._changes:
                self._burst = not self._burst
                length = BURST_FOR if self._burst else QUIET_FOR
                self._changes = at - length * log(1.0 - random())
            factor = self.factor(at)
            if self._law == "bursty":
                factor *= BURST_RATE if self._burst else QUIET_RATE
            self.now = self._mean * factor
            if factor <= 0.0:
                at = min((begins for begins, _ in self._steps if begins > at), default=until)
                if at >= until:
                    return
                continue
            gap = self._gap(random()) / self.now
            if self._law == "bursty" and at + gap > self._changes:
                at = self._changes  # the gaps have no memory, so the next state draws a new one
                continue
            at += gap
            if at >= until:
                return
            yield at

    def _gap(self, chance: float) -> float:
        """Return a gap with mean 1."""
        if self._law == "pareto":
            least = (PARETO_SHAPE - 1) / PARETO_SHAPE
            return min(least * float((1.0 - chance) ** (-1.0 / PARETO_SHAPE)), LONGEST)
        return -log(1.0 - chance)
