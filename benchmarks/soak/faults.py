"""Carries out the faults of a plan: each begins, and ends by itself after its time."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from time import monotonic
from typing import Final

from benchmarks.agenda import Agenda
from benchmarks.mixed.kinds import LIAR, RPC, WEB
from benchmarks.mixed.services import POD_PORT, Pod, Service
from benchmarks.mixed.traffic import NEWS_AFTER, RESTART_AFTER
from benchmarks.soak import network
from benchmarks.soak.endpoints import View
from benchmarks.soak.plan import Fault, Planned
from benchmarks.soak.programs import TRAFFIC_PORT, Program
from benchmarks.soak.verdict import Occurred
from benchmarks.soak.world import PATIENCE, Attacked, World

#: Seconds between two looks at a program that ends or starts.
LOOK_EVERY: Final = 0.2
#: Seconds until the ingress and Kubernetes notice that an activator is gone or not ready.
NOTICED_AFTER: Final = 1.0
#: Seconds from SIGTERM to SIGKILL: terminationGracePeriodSeconds of the manifests.
ACTIVATOR_GRACE: Final = 600.0
SCALER_GRACE: Final = 30.0
#: Seconds between two publications of flapping Endpoints.
FLAP_EVERY: Final = 0.3
#: Seconds between the ends of an attack and of its process's report.
REPORT_AFTER: Final = 5.0

_VIEWS: Final = {
    Fault.ENDPOINTS_STALE: View.STALE,
    Fault.ENDPOINTS_TRUNCATED: View.TRUNCATED,
    Fault.ENDPOINTS_FLAPPING: View.FLAPPING,
    Fault.ENDPOINTS_EMPTY: View.EMPTY,
}
_ATTACKS: Final = {
    Fault.SLOWLORIS: "slowloris",
    Fault.RESETS: "resets",
    Fault.FLOOD: "flood",
    Fault.HUGE_HEADS: "huge-heads",
    Fault.SMUGGLING: "smuggling",
    Fault.RAPID_RESET: "rapid-reset",
}

Do = Callable[[], None]


class Faults:
    """Carries out faults.

    Arguments:
        agenda: makes the calls that end a fault, and the steps between.
    """

    def __init__(self, world: World, agenda: Agenda) -> None:
        self._world = world
        self.agenda = agenda
        self.numbers = count()
        self.pending: dict[int, Do] = {}
        self._no_drops = network.missing()
        self._is_replacing = False
        self._do: dict[Fault, Callable[[Planned], None]] = {
            Fault.KILL_POD: self._kill_pod,
            Fault.STOP_POD: self._stop_pod,
            Fault.SLOW_POD: self._slow_pod,
            Fault.DEAD_POD_READY: self._dead_pod_ready,
            Fault.WRONG_PROBE: self._wrong_probe,
            Fault.BROKEN_FRAMING: self._broken_framing,
            Fault.DROP_PACKETS: self._drop_packets,
            Fault.WATCH_CUT: self._at_once(world.cluster.cut_watches),
            Fault.WATCH_EXPIRED: self._at_once(world.cluster.expire_watches),
            Fault.WATCH_SILENT: self._at_once(world.cluster.silence_watches),
            Fault.API_AWAY: self._between(world.cluster.go_away, world.cluster.come_back),
            Fault.AUTOSCALER_RESTART: self._between(
                world.cluster.stop_autoscaler, world.cluster.start_autoscaler
            ),
            Fault.SCALER_RESTART: self._scaler_restart,
            Fault.SCALER_KILL: self._scaler_kill,
            Fault.ACTIVATOR_ROLL: self._roll,
            Fault.ACTIVATOR_KILL: self._kill,
            **dict.fromkeys(_VIEWS, self._view),
            **dict.fromkeys(_ATTACKS, self._attack),
        }

    def begin(self, planned: Planned) -> None:
        """Begin a fault; the agenda ends it."""
        self._do[planned.fault](planned)

    # -- the record -----------------------------------------------------------------------------

    def _began(self, planned: Planned, target: str = "") -> Do:
        """Record the begin of a fault; return the function that records its end."""
        occurred = self._world.evidence.occurred
        number = len(occurred)
        occurred.append(Occurred(planned.fault, target, monotonic()))

        def ended() -> None:
            occurred[number] = replace(occurred[number], ended=monotonic())

        return ended

    def _skip(self, planned: Planned, why: str) -> None:
        text = f"{planned.fault.value}: {why}"
        skipped = self._world.evidence.skipped
        skipped[text] = skipped.get(text, 0) + 1

    def end(self) -> None:
        """End all faults now; return when every program runs again."""
        self.agenda = Agenda()
        for steps in list(self.pending.values()):
            self.agenda.after(0.0, steps)
        self.agenda.run()

    def _after(self, seconds: float, *steps: Do) -> None:
        number = next(self.numbers)

        def all_steps() -> None:
            del self.pending[number]
            for step in steps:
                step()

        self.pending[number] = all_steps
        self.agenda.after(seconds, all_steps)

    def _at_once(self, do: Do) -> Callable[[Planned], None]:
        def begin(planned: Planned) -> None:
            ended = self._began(planned)
            do()
            self._after(planned.seconds, ended)

        return begin

    def _between(self, do: Do, undo: Do) -> Callable[[Planned], None]:
        def begin(planned: Planned) -> None:
            ended = self._began(planned)
            do()
            self._after(planned.seconds, undo, ended)

        return begin

    # -- pods -----------------------------------------------------------------------------------

    def _pod(self, planned: Planned, name: str) -> tuple[Service, Pod] | None:
        """Return the pod of a fault; None if it is dead."""
        service = self._world.traffic.services[name]
        pod = service.pods[planned.draw % len(service.pods)]
        if pod.alive:
            return service, pod
        self._skip(planned, "the pod was dead")
        return None

    def _kill_pod(self, planned: Planned) -> None:
        if found := self._pod(planned, planned.target):
            ended = self._began(planned, planned.target)
            self._world.traffic.kill(*found, self.agenda)
            # Its process starts, and Kubernetes lists it, after the rest of the recovery.
            self._after(RESTART_AFTER + 2 * NEWS_AFTER + planned.seconds, ended)

    def _dead_pod_ready(self, planned: Planned) -> None:
        if found := self._pod(planned, planned.target):
            ended = self._began(planned, planned.target)
            self._world.traffic.kills.append(found[1].kill())
            self._after(planned.seconds, found[1].start, ended)

    def _stop_pod(self, planned: Planned) -> None:
        if found := self._pod(planned, planned.target):
            pod, ended = found[1], self._began(planned, planned.target)
            pod.signal(signal.SIGSTOP)
            self._after(planned.seconds, partial(pod.signal, signal.SIGCONT), ended)

    def _slow_pod(self, planned: Planned) -> None:
        seconds = 0.2 + planned.draw % 10 / 5
        self._command(planned, planned.target, f"slow {seconds}", "slow 0")

    def _wrong_probe(self, planned: Planned) -> None:
        if found := self._pod(planned, (WEB, RPC)[planned.draw // 7 % 2]):
            service, pod = found
            ended = self._began(planned, service.name)
            pod.command(f"probe {planned.target}")
            # An activator does not probe a pod whose responses prove that it works.
            service.set_ready(pod, False)
            self._after(NEWS_AFTER, partial(service.set_ready, pod))
            self._after(planned.seconds, partial(pod.command, "probe right"), ended)

    def _broken_framing(self, planned: Planned) -> None:
        self._command(planned, LIAR, f"framing {planned.target}", "framing right")

    def _command(self, planned: Planned, service: str, begin: str, end: str) -> None:
        if found := self._pod(planned, service):
            pod, ended = found[1], self._began(planned, service)
            pod.command(begin)
            self._after(planned.seconds, partial(pod.command, end), ended)

    def _drop_packets(self, planned: Planned) -> None:
        if self._no_drops:
            self._skip(planned, self._no_drops)
        elif found := self._pod(planned, planned.target):
            ip, ended = found[1].ip, self._began(planned, planned.target)
            network.drop(ip, POD_PORT, on=True)
            self._after(planned.seconds, partial(network.drop, ip, POD_PORT, on=False), ended)

    # -- Kubernetes -----------------------------------------------------------------------------

    def _view(self, planned: Planned) -> None:
        publisher, name = self._world.publisher, planned.target
        ended = self._began(planned, name)
        publisher.set_view(name, _VIEWS[planned.fault], planned.draw)
        end = monotonic() + planned.seconds

        def flap() -> None:
            if monotonic() < end - FLAP_EVERY:
                publisher.refresh(name)
                self._after(FLAP_EVERY, flap)

        if planned.fault is Fault.ENDPOINTS_FLAPPING:
            self._after(FLAP_EVERY, flap)
        self._after(planned.seconds, partial(publisher.set_view, name, View.RIGHT), ended)

    def _scaler(self, planned: Planned) -> Program | None:
        """Return the scaler; None, and skip the fault, while another fault replaces it."""
        if self._world.scaler.present is None:  # this process was stopped for seconds
            self._skip(planned, "the scaler had not been replaced yet")
            return None
        return self._world.scaler

    def _scaler_restart(self, planned: Planned) -> None:
        if (scaler := self._scaler(planned)) is None:
            return
        ended = self._began(planned)
        scaler.terminate()

        def gone() -> None:
            self._world.evidence.scaler_statuses.append(scaler.ended() or 0)
            scaler.leave()
            scaler.start()
            ended()

        self.when_gone(scaler, SCALER_GRACE, gone)

    def _scaler_kill(self, planned: Planned) -> None:
        if (scaler := self._scaler(planned)) is None:
            return
        ended = self._began(planned)
        scaler.kill()
        self._after(planned.seconds, scaler.start, ended)

    # -- activators -----------------------------------------------------------------------------

    def _when(self, is_so: Callable[[], bool], patience: float, late: Do, *steps: Do) -> None:
        """Take the steps as soon as a condition holds.

        Arguments:
            patience: seconds; after them, `late` is called, which may make the condition true.
        """
        end = monotonic() + patience

        def look() -> None:
            if not is_so():
                if monotonic() <= end:
                    self._after(LOOK_EVERY, look)
                    return
                late()
            if is_so():
                for step in steps:
                    step()

        look()

    def when_gone(self, program: Program, grace: float, *steps: Do) -> None:
        """Take the steps when a terminated program has ended; kill it after its grace period."""
        self._when(lambda: program.ended() is not None, grace, program.kill, *steps)

    def _take_out(self) -> None:
        self._world.ingress.take_out(1)
        self._world.publisher.list_activators([self._world.activators[0].ip])

    def _start_second(self, ended: Do) -> None:
        world, second = self._world, self._world.activators[1]
        second.start()

        def put_in() -> None:
            self._is_replacing = False
            world.publisher.list_activators([each.ip for each in world.activators])
            world.ingress.put_in(1)

        def never() -> None:
            text = f"{second.name} is not ready {PATIENCE:g} s after its start"
            world.evidence.crashes.append(text)

        self._when(second.is_ready, PATIENCE, never, put_in, ended)

    def _replaces(self, planned: Planned) -> bool:
        """Return whether the second activator can be replaced; if not, skip the fault."""
        if self._is_replacing or self._world.activators[1].present is None:
            self._skip(planned, "its activator had not been replaced yet")
            return False
        self._is_replacing = True
        return True

    def _roll(self, planned: Planned) -> None:
        if not self._replaces(planned):
            return
        second = self._world.activators[1]
        ended = self._began(planned, second.ip)
        second.terminate()
        self._after(NOTICED_AFTER, self._take_out)

        def gone() -> None:
            self._world.evidence.statuses.append(second.ended() or 0)
            second.leave()
            self._start_second(ended)

        self._after(NOTICED_AFTER, partial(self.when_gone, second, ACTIVATOR_GRACE, gone))

    def _kill(self, planned: Planned) -> None:
        if not self._replaces(planned):
            return
        second = self._world.activators[1]
        ended = self._began(planned, second.ip)
        second.kill()
        self._after(NOTICED_AFTER, self._take_out)
        self._after(planned.seconds / 2, partial(self._start_second, ended))

    # -- hostile clients ------------------------------------------------------------------------

    def _attack(self, planned: Planned) -> None:
        attacked = self._world.activators[planned.draw % 2]
        ended = self._began(planned, attacked.ip)
        where = f"{attacked.ip}:{TRAFFIC_PORT}"
        self._world.hostile.send(
            f"{_ATTACKS[planned.fault]} {where} {planned.seconds:g} {planned.draw}"
        )

        def report() -> None:
            facts = self._world.hostile.receive()
            statuses = {int(status): number for status, number in facts["statuses"].items()}
            attacked = Attacked(facts["mode"], facts["connections"], statuses)
            self._world.evidence.attacks.append(attacked)

        self._after(planned.seconds, ended)
        self._after(planned.seconds + REPORT_AFTER, report)
