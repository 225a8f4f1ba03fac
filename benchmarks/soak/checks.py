"""The invariants of a soak as rows of its table, each with the text of its failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from benchmarks.mixed.kinds import ALL_KINDS
from benchmarks.mixed.pod import SMUGGLED
from benchmarks.mixed.traffic import MAX_SHOWN, MixedTraffic
from benchmarks.mixed.verdict import Failure
from benchmarks.report import Row
from benchmarks.soak import verdict
from benchmarks.soak.plan import Fault
from benchmarks.soak.verdict import IDEMPOTENT, Fate, Occurred, Sighting
from benchmarks.soak.world import Evidence

#: Samples before this part of the run, at most so many seconds, are the warm-up.
WARM_UP, WARM_UP_PART = 120.0, 0.25
#: Seconds that a run needs for a goal of memory.
LONG_ENOUGH: Final = 600.0
#: Seconds between two samples.
SAMPLE_EVERY: Final = 1.0
#: Examples that a failure names.
EXAMPLES: Final = 3
MIB: Final = 1 << 20
#: The statuses that an attack may get; 0 is a connection that closed without a response.
REFUSALS: Final[dict[str, frozenset[int]]] = {
    "smuggling": frozenset({0, 400, 501}),
    "huge-heads": frozenset({0, 400, 414, 431}),
    "flood": frozenset({0, 404}),
    **dict.fromkeys(("slowloris", "resets", "rapid-reset"), frozenset({0})),
}
#: WebSocket clients: an ingress may repeat their handshakes, which are GETs.
_HANDSHAKE: Final = "WebSocket-"


def rows(
    seconds: float, evidence: Evidence, traffic: MixedTraffic, scaled: Counter[str]
) -> Iterator[Row]:
    """Yield one row for each invariant, and rows for people.

    Arguments:
        seconds: the duration of the traffic.
        scaled: how often each request to the Deployment arrived there.
    """
    fates = {
        id(each): verdict.fate(each, traffic.kills, evidence.occurred, evidence.misnumbered)
        for each in traffic.failures
    }
    lost = [each for each in traffic.failures if fates[id(each)] is Fate.LOST]
    counts = Counter(fates.values())
    total = sum(traffic.ended.values())
    beside = ", ".join(f"{counts[fate]} {fate.value}" for fate in Fate if fate is not Fate.LOST)
    for name, some in (
        ("idempotent requests lost", [each for each in lost if each.kind in IDEMPOTENT]),
        ("other requests lost", [each for each in lost if each.kind not in IDEMPOTENT]),
    ):
        shown = [text_of(each) for each in some]
        yield _none(name, shown, beside=f"of {total:,}; {beside}" if "idem" in name else "")
    yield from _repeated(evidence, traffic, scaled)
    yield _none("requests smuggled to pods", [SMUGGLED] * traffic.arrived()[SMUGGLED])
    yield _none("hostile requests that were not refused", _not_refused(evidence))
    yield _none("activators that do not report to the autoscaler at the end", evidence.silent)
    yield _none("pods that an activator has wrong at the end", evidence.stale)
    yield _none("queued requests and connections left", evidence.left)
    yield from _growth(seconds, evidence)
    yield _reasons(evidence, traffic)
    yield _rolled(evidence, lost, traffic)
    yield _killed(evidence, traffic, fates)
    yield _none("programs that ended by themselves, or did not start", evidence.crashes)
    bad = [f"exit status {status}" for status in evidence.scaler_statuses if status]
    yield _none("scalers that SIGTERM did not end with status 0", bad)
    yield _none("errors in the logs of activators and scaler", evidence.errors)
    yield _none("pods that did not drain", ["a pod"] * traffic.undrained)
    yield from _counts(evidence, traffic, fates)


def _not_refused(evidence: Evidence) -> list[str]:
    """Return the attacks that got a response other than a refusal."""
    return [
        f"{attack.mode}: {number} responses with status {status}"
        for attack in evidence.attacks
        for status, number in attack.statuses.items()
        if status not in REFUSALS[attack.mode]
    ]


def _none(name: str, found: Sequence[str], beside: str = "") -> Row:
    """Return the row of an invariant that nothing is found."""
    details: dict[str, Any] = {"failure": list(found[:EXAMPLES]), "found": list(found[:MAX_SHOWN])}
    return Row(name, f"{len(found)}", beside, goal="0", met=not found, details=details)


def text_of(each: Failure) -> str:
    """Return a failure as text."""
    via = f" via {each.via}" if each.via else ""
    return (
        f"{each.kind}, sent {each.sent:.2f}, failed {each.ended:.2f}, pod {each.pod or '-'}{via}:"
        f" {each.what} {each.reason}"
    )


def _repeated(evidence: Evidence, traffic: MixedTraffic, scaled: Counter[str]) -> Iterator[Row]:
    arrived = traffic.arrived() + scaled
    del arrived[SMUGGLED]
    twice = [key for key, number in arrived.items() if number > 1]
    handshakes = [key for key in twice if key.startswith(_HANDSHAKE)]
    kills = sum(each.fault is Fault.ACTIVATOR_KILL for each in evidence.occurred)
    allowed = kills * ALL_KINDS["WebSocket"].clients
    found = sorted(set(twice) - set(handshakes))
    found += [] if arrived else ["no pod recorded an arrival, so nothing can be compared"]
    yield _none("POSTs and calls that arrived twice", found, f"of {len(arrived):,} that arrived")
    yield Row(
        "WebSocket handshakes that arrived twice",
        f"{len(handshakes)}",
        "the ingress repeats a GET of a killed activator",
        goal=f"<= {allowed}",
        met=len(handshakes) <= allowed,
        details={"failure": handshakes[:EXAMPLES]},
    )


def _growth(seconds: float, evidence: Evidence) -> Iterator[Row]:
    begin = min(WARM_UP, seconds * WARM_UP_PART)
    settled = [each for each in evidence.samples if each.at >= begin]
    ratio = verdict.growth([float(each.resident) for each in settled])
    first, last = (settled[at].resident / MIB for at in (0, -1)) if settled else (0.0, 0.0)
    judged = seconds >= LONG_ENOUGH
    enough = len(settled) >= (seconds - begin) / SAMPLE_EVERY / 2
    most = max((each.resident for each in settled), default=0) / MIB
    yield Row(
        "memory: last sixth / first sixth after the warm-up",
        f"{ratio:.3f}",
        f"{first:.1f} MiB warm, {last:.1f} at the end, most {most:.1f}",
        goal=f"<= {verdict.GOAL_GROWTH}" if judged else "",
        met=enough and ratio <= verdict.GOAL_GROWTH if judged else None,
        details={
            "failure": [
                f"the first activator's resident memory grew to {ratio:.3f}"
                f" in {len(settled)} samples after the warm-up"
            ],
            "samples": [asdict(each) for each in evidence.samples],
        },
    )
    yield _files(evidence)


def _files(evidence: Evidence) -> Row:
    row = Row("open files: before the clients, after them", "-", goal="no more than before")
    row.met = False
    row.details["failure"] = ["the first activator has ended"]
    if evidence.files is not None:
        before, after = evidence.files
        row.measured = f"{before} and {after}"
        row.beside = f"most {max((each.files for each in evidence.samples), default=0)}"
        row.met = after <= before
        row.details["failure"] = [f"{after - before} files are still open"]
    return row


def _reasons(evidence: Evidence, traffic: MixedTraffic) -> Row:
    seen = list(evidence.reasons())
    for each in traffic.failures:
        if each.reason:
            service = ALL_KINDS[each.kind].service
            seen.append(Sighting(each.reason.partition(";")[0], service, each.ended))
    false = verdict.false_reasons(seen, evidence.occurred)
    kinds = Counter(each.reason for each in seen)
    texts = [
        f"{each.service}: {each.reason}, {number} times, first at {each.at:.2f}"
        for each, number in false
    ]
    beside = ", ".join(f"{number} {reason}" for reason, number in kinds.most_common())
    row = _none("reasons that no fault explains", texts, f"of {len(seen)}: {beside}")
    return row


def _rolled(evidence: Evidence, lost: Sequence[Failure], traffic: MixedTraffic) -> Row:
    rolls = [each for each in evidence.occurred if each.fault is Fault.ACTIVATOR_ROLL]
    failed = [each for each in lost if any(roll.overlaps(each.sent, each.ended) for roll in rolls)]
    sent = sum(
        verdict.sent_between(roll.began, min(roll.ended, roll.began + 120), traffic.sent)
        for roll in rolls
    )
    bad = [f"exit status {status}" for status in evidence.statuses if status]
    share = 1 - len(failed) / sent if sent else 1.0
    return Row(
        f"availability while an activator is rolled, {len(rolls)} times",
        f"{share:.4f}" if rolls else "-",
        f"{sent:,} short requests",
        goal="1.0, exit status 0",
        met=not failed and not bad if rolls else None,
        details={"failure": [*bad, *map(text_of, failed[:EXAMPLES])]},
    )


def _killed(evidence: Evidence, traffic: MixedTraffic, fates: dict[int, Fate]) -> Row:
    kills = [each for each in evidence.occurred if each.fault is Fault.ACTIVATOR_KILL]
    cut = [each for each in traffic.failures if fates[id(each)] is Fate.ACTIVATOR]
    counts = [verdict.availability(kill, cut, traffic.sent) for kill in kills]
    failed, total = (sum(numbers) for numbers in zip(*counts, strict=True)) if kills else (0, 0)
    share = 1 - failed / total if total else 1.0
    worst = min((1 - some / of for some, of in counts if of), default=1.0)
    after = _after_kills(kills, traffic, fates)
    sent_after = sum(
        verdict.sent_between(kill.began + verdict.KILL_WINDOW, kill.ended, traffic.sent)
        for kill in kills
    )
    later = 1 - len(after) / max(sent_after, len(after), 1)
    return Row(
        f"availability in the second of an activator's SIGKILL, {len(kills)} times",
        f"{share:.4f}, then {later:.4f}" if kills else "-",
        f"{failed} of {total:,} short requests, worst kill {worst:.4f};"
        f" {len(cut)} requests and streams cut",
        goal=f">= {verdict.GOAL_KILLED}, then 1.0",
        met=share >= verdict.GOAL_KILLED and not after if kills else None,
        details={
            "failure": [f"{failed} of {total} short requests failed", *after[:EXAMPLES]],
            "kills": counts,
            "cut": [text_of(each) for each in cut],
        },
    )


def _after_kills(
    kills: Sequence[Occurred], traffic: MixedTraffic, fates: dict[int, Fate]
) -> list[str]:
    """Return the requests that were lost behind the second of a kill, until its end."""
    return [
        text_of(each)
        for each in traffic.failures
        if fates[id(each)] is Fate.LOST
        and any(
            kill.began + verdict.KILL_WINDOW < each.sent and each.sent <= kill.ended
            for kill in kills
        )
    ]


def _counts(evidence: Evidence, traffic: MixedTraffic, fates: dict[int, Fate]) -> Iterator[Row]:
    failed = Counter(each.kind for each in traffic.failures)
    lost = Counter(each.kind for each in traffic.failures if fates[id(each)] is Fate.LOST)
    for kind in ALL_KINDS:
        yield Row(
            f"  {kind}",
            f"{traffic.ended[kind]:,}, {lost[kind]} lost",
            f"{failed[kind] - lost[kind]} excused",
            goal="> 0",
            met=traffic.ended[kind] > 0,
            details={"longestSeconds": traffic.longest.get(kind)},
        )
    took = Counter(each.fault for each in evidence.occurred)
    for fault in Fault:
        why = [text for text in evidence.skipped if text.startswith(f"{fault.value}: ")]
        times = sum(evidence.skipped[text] for text in why)
        beside = f"{times} skipped: {why[0].partition(': ')[2]}" if why else ""
        yield Row(f"  fault: {fault.value}", f"{took[fault]}", beside)
