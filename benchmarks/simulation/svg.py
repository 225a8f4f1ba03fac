"""Line charts as SVG: the same bytes for the same figures, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 52, 84
#: Colours that people with colour blindness can tell apart, on light and on dark.
_STYLE: Final = """
.back { fill: #ffffff } .text { fill: #1f2328 } .soft { fill: #59636e }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.line { fill: none; stroke-width: 2.5 }
.s0 { stroke: #0969da } .d0 { fill: #0969da } .s1 { stroke: #bc4c00 } .d1 { fill: #bc4c00 }
.s2 { stroke: #6e7781 } .d2 { fill: #6e7781 } .s3 { stroke: #8250df } .d3 { fill: #8250df }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117 } .text { fill: #f0f6fc } .soft { fill: #9198a1 }
.grid { stroke: #3d444d }
.s0 { stroke: #58a6ff } .d0 { fill: #58a6ff } .s1 { stroke: #f0883e } .d1 { fill: #f0883e }
.s2 { stroke: #9198a1 } .d2 { fill: #9198a1 } .s3 { stroke: #bc8cff } .d3 { fill: #bc8cff }
}
text { font: 13px system-ui, sans-serif } .title { font-weight: 600; font-size: 15px }
"""
_DASHES: Final = ("", "7 4", "2 4", "9 3 2 3")


class Series(NamedTuple):
    """One line: its name, and points in the order of x."""

    name: str
    points: Sequence[tuple[float, float]]


class Axis(NamedTuple):
    """One axis.

    Attributes:
        label: with its unit.
        ticks: the values to mark; the first and the last are its ends.
        is_log: whether it is logarithmic.
    """

    label: str
    ticks: Sequence[float]
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return where a value is between the ends, 0 to 1; a value outside is at an end."""
        low, high, at = self.ticks[0], self.ticks[-1], value
        if self.is_log:
            low, high, at = log10(low), log10(high), log10(max(value, self.ticks[0]))
        return min(max((at - low) / (high - low), 0.0), 1.0)


def axis_of(label: str, values: Sequence[float], least: float) -> Axis:
    """Return a logarithmic axis of whole powers of ten for all values; not below ``least``."""
    high = max([*values, least * 10])
    first, last = floor(log10(least)), ceil(log10(high))
    return Axis(label, [10.0**power for power in range(first, last + 1)], is_log=True)


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """Return a chart with one line for each series, marked by colour, dashes and name."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f'<text class="text title" x="{_LEFT}" y="28">{escape(title)}</text>',
    ]
    for value in y.ticks:
        at = _down(y.place(value))
        parts.append(f'<path class="grid" d="M{_LEFT} {at}H{WIDTH - _RIGHT}"/>')
        least = "≤ " if y.is_log and value == y.ticks[0] else ""
        parts.append(_text(_LEFT - 8, at + 4, f"{least}{value:g}", "soft", "end"))
    below = HEIGHT - _BOTTOM + 20
    parts += [_text(_across(x.place(value)), below, f"{value:g}", "soft") for value in x.ticks]
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(_text(middle, HEIGHT - _BOTTOM + 40, x.label, "text"))
    parts.append(_text(_LEFT, _TOP - 8, y.label, "soft", "start"))
    for number, one in enumerate(series):
        parts += _line(number, one, x, y)
    parts += _legend(series)
    return "\n".join([*parts, "</svg>", ""])


def _line(number: int, series: Series, x: Axis, y: Axis) -> list[str]:
    places = [(_across(x.place(a)), _down(y.place(b))) for a, b in series.points]
    path = "L".join(f"{a} {b}" for a, b in places)
    dots = [f'<circle class="d{number}" cx="{a}" cy="{b}" r="3.5"/>' for a, b in places]
    dash = _DASHES[number]
    return [f'<path class="line s{number}" stroke-dasharray="{dash}" d="M{path}"/>', *dots]


def _legend(series: Sequence[Series]) -> list[str]:
    parts, at, down = [], _LEFT, HEIGHT - 18
    for number, one in enumerate(series):
        parts.append(
            f'<path class="line s{number}" stroke-dasharray="{_DASHES[number]}" '
            f'd="M{at} {down - 4}h28"/>'
        )
        parts.append(_text(at + 36, down, one.name, "text", "start"))
        at += 36 + 8 * len(one.name) + 24
    return parts


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _across(place: float) -> float:
    return round(_LEFT + place * (WIDTH - _LEFT - _RIGHT), 1)


def _down(place: float) -> float:
    return round(HEIGHT - _BOTTOM - place * (HEIGHT - _TOP - _BOTTOM), 1)
