"""Keeps what the scaler's slices of all Services are, and decides what to write next.

Pure: events and the time go in, requests come out. A slice exists as long as its Service has route
``takeover`` or ``front``; it lists the activators while they take its requests. Else it is empty,
or lists the pods of a ``front``. Only the slices store the allotted ports, so a restart reads them
back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple, final

from activator.discovery.api_server import ApiResponse, Meaning
from activator.objects.fields import Field, ManifestError, root
from activator.plain.service import PlainService
from activator.plain.slices import PORT_ANNOTATION, is_takeover
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.takeover import slices
from activator.scale.takeover.pods import MIRROR, Kept, Pods, about_front, lonely, lonely_finding
from activator.scale.takeover.ports import Ports
from activator.scale.takeover.slices import (
    ActivatorAddress,
    Holder,
    Leave,
    SliceFamily,
    SliceKey,
    SliceRecord,
    Write,
)

#: Seconds for which a slice of an unknown Service stays: the watches pass each other, and a new
#: leader decides about one Service after the other.
ORPHAN_STAYS: Final = 10.0
#: Slices, or Services, that one call gets at most: the comparison of a slice takes about 40 µs.
MOST: Final = 32


@final
class Agenda:
    """The comparisons that are due. Times are seconds, monotonic."""

    def __init__(self) -> None:
        self._due: dict[SliceKey, None] = {}
        self._later: list[tuple[float, SliceKey]] = []
        self._sweep: list[ServiceName] = []

    def add(self, key: SliceKey) -> None:
        """Compare a slice as soon as possible."""
        self._due.setdefault(key)

    def extend(self, keys: Iterable[SliceKey]) -> None:
        """Compare slices as soon as possible."""
        self._due.update(dict.fromkeys(keys))

    def add_at(self, at: float, key: SliceKey) -> None:
        """Compare a slice at a time."""
        heappush(self._later, (at, key))

    def sweep(self, names: Collection[ServiceName]) -> None:
        """Compare the slices of all these Services, a few with each call."""
        self._sweep = list(names)

    def clear(self) -> None:
        """Compare nothing any more."""
        self._due.clear()
        self._later.clear()
        self._sweep.clear()

    def take_names(self) -> list[ServiceName]:
        """Remove and return the next Services of the sweep, at most ``MOST``."""
        names = self._sweep[-MOST:]
        del self._sweep[-MOST:]
        return names

    def take_keys(self) -> Iterator[SliceKey]:
        """Remove and yield the next due slices, at most ``MOST``."""
        for _ in range(min(len(self._due), MOST)):
            key = next(iter(self._due))
            del self._due[key]
            yield key

    def advance(self, now: float) -> None:
        """Make the slices due whose time has come."""
        while self._later and self._later[0][0] <= now:
            self.add(heappop(self._later)[1])

    @property
    def is_due(self) -> bool:
        """Whether there is something to compare now."""
        return bool(self._due or self._sweep)

    @property
    def next_time(self) -> float:
        """The time of the next later comparison; inf for none."""
        return self._later[0][0] if self._later else float("inf")


class _Wish(NamedTuple):
    """A Service with route ``takeover`` or ``front``."""

    service: PlainService
    families: tuple[SliceFamily, ...]
    takes_over: bool


@final
class Takeovers:
    """The scaler's slices of all Services. Times are seconds, monotonic.

    Arguments:
        ports: allots the ports.
        pods: knows the pods of all Services.
    """

    def __init__(self, ports: Ports | None = None, pods: Pods | None = None) -> None:
        self._ports = ports or Ports()
        self._pods = pods or Pods()
        self._wishes: dict[ServiceName, _Wish] = {}
        self._kept: set[ServiceName] = set()
        self._slices: dict[SliceKey, SliceRecord] = {}
        self._activators: Mapping[SliceFamily, Sequence[ActivatorAddress]] = {}
        self._agenda = Agenda()
        # Slices of unknown Services, and since when; None before the first look.
        self._orphans: dict[SliceKey, float | None] = {}
        self._started = False

    # -- events ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write: this process leads, and all slices have been listed.

        The caller puts each Service within ``ORPHAN_STAYS`` seconds.
        """
        self._started = True
        for record in self._slices.values():
            record.begin()
        self._ports.note_conflicts()
        self._agenda.extend(self._slices)
        self._orphans = {
            key: None for key, each in self._slices.items() if each.owner not in self._wishes
        }

    def stop(self, now: float) -> None:
        """Write nothing more, and let all slices stay: the next leader decides about them."""
        self._started = False
        self._agenda.clear()
        self._wishes.clear()
        self._kept.clear()
        self._ports.clear_findings()
        for key, each in list(self._slices.items()):
            self._check(key, each, now)

    def put(self, service: PlainService, now: float, *, takes_over: bool) -> None:
        """Record what a Service with route ``takeover`` or ``front`` needs.

        Arguments:
            service: not refused.
            takes_over: whether the activators take its requests now.
        """
        name = ServiceName(service.key.namespace, service.key.name)
        families = tuple(family for family in SliceFamily if family.value in service.families)
        wish = _Wish(service, families, takes_over)
        self._kept.discard(name)
        if self._wishes.get(name) != wish:
            self._wishes[name] = wish
            for family in families:
                self._slices.setdefault(slices.key_of(name, family), SliceRecord(name, family))
            for key in slices.keys_of(name):
                self._orphans.pop(key, None)
            self.touch(name, now)

    def remove(self, name: ServiceName, now: float) -> None:
        """Record that a Service is deleted, or does not have such a route any more."""
        self._kept.discard(name)
        self._ports.remove_findings(name)
        self._wishes.pop(name, None)
        for key in slices.keys_of(name):
            self._orphans.pop(key, None)
        self.touch(name, now)

    def keep(self, name: ServiceName) -> None:
        """Leave the slices of a Service as they are: its annotations cannot be read."""
        self._kept.add(name)

    def set_activators(self, activators: Mapping[SliceFamily, Sequence[ActivatorAddress]]) -> None:
        """Record the activators that can take requests; none of a family changes no slice."""
        if self._activators == activators:
            return
        self._activators = activators
        self._agenda.sweep(self._wishes)

    def observe(self, obj: object, now: float) -> ServiceName | None:
        """Record an EndpointSlice that was added or changed.

        Arguments:
            obj: any EndpointSlice of the cluster, as decoded from JSON.

        Returns:
            The Service whose takeover slice it is; None for other slices.
        """
        try:
            return self._observe(root(obj, "EndpointSlice"), now)
        except ManifestError:  # no API server sends one, and other slices concern other parts
            return None

    def deleted(self, key: SliceKey, now: float) -> ServiceName | None:
        """Record a deleted EndpointSlice; return as for ``observe``."""
        record = self._slices.get(key)
        if record is None:
            return None
        if record.seen is not None:
            record.gone(now)
            self._check(key, record, now)
        return record.owner

    # -- writes ------------------------------------------------------------------------------------

    def due(self, now: float) -> Write | None:
        """Return the next request; None if there is none now. Call ``done`` with its result."""
        agenda = self._agenda
        agenda.advance(now)
        for name in agenda.take_names():
            wish = self._wishes.get(name)
            if wish is not None and (wish.takes_over or wish.service.is_front):
                self.touch(name, now)
        for key in agenda.take_keys() if self._started else ():
            record = self._slices.get(key)
            if record is None or record.writes:
                continue
            if record.not_before > now:
                agenda.add_at(record.not_before, key)
            elif (stays := self._stays(key, record, now)) > now:
                agenda.add_at(stays, key)
            elif write := (
                self._delete_stale(key, record.owner)
                if record.holder is Holder.STALE
                else slices.write_of(key, record.seen, self._wanted(record, now))
            ):
                record.writes = True
                return write
            elif (lacks_until := self._ports.lacks_until(record.owner)) is not None:
                agenda.add_at(lacks_until, key)
        return None

    def next(self) -> float:
        """Return when ``due`` may return a request without another event; inf for never."""
        if self._agenda.is_due and self._started:
            return float("-inf")
        return self._agenda.next_time

    def done(self, write: Write, response: ApiResponse, now: float) -> ServiceName:
        """Record the response to a request; return the Service of the slice."""
        record = self._slices[write.key]
        meaning = slices.meaning(write.request.method, response.status)
        if meaning is not Meaning.DONE:
            record.failed(meaning, response.status, response.message(), now)
        elif write.content is None:
            record.gone(now)
        else:
            self.observe(response.decoded(), now)
        record.writes = False
        if meaning is Meaning.DONE:
            record.succeeded(write.content, now)
        self._check(write.key, record, now)
        return record.owner

    # -- state -------------------------------------------------------------------------------------

    def in_place_since(self, name: ServiceName, now: float) -> float | None:
        """Return since when the slices of all families have listed a present activator.

        Returns:
            None if one of them does not, or if a request that is under way may change that. Also
            None if a node of a pod would refuse connections.
        """
        wish = self._wishes.get(name)
        if wish is not None and self._lonely_nodes(wish):
            return None
        times = []
        for family in wish.families if wish else ():
            record = self._slices[slices.key_of(name, family)]
            present = {activator.ip for activator in self._activators.get(family, ())}
            since = [at for ip, at in record.listed.items() if ip in present]
            if not since or not record.is_certain(now):
                return None
            if record.seen is None or record.seen.port != self.port_of(name):
                return None
            times.append(min(since))
        return max(times, default=None)

    def knows(self, name: ServiceName) -> bool:
        """Return whether a Service has slices, needs some, or must keep them."""
        if name in self._wishes or name in self._kept:
            return True
        return not self._slices.keys().isdisjoint(slices.keys_of(name))

    def lists_activators(self, name: ServiceName) -> bool:
        """Return whether a takeover slice of a Service has endpoints."""
        records = map(self._slices.get, slices.keys_of(name))
        return any(record is not None and record.listed for record in records)

    def port_of(self, name: ServiceName) -> int | None:
        """Return the port that is allotted to a Service; None if it has none."""
        return self._ports.of(name)

    def findings(self, name: ServiceName) -> Sequence[Finding]:
        """Return what a user must know of a Service's takeover."""
        wish = self._wishes.get(name)
        if wish is None:
            return ()
        found = self._ports.findings(name)
        stale = self._stale(name)
        found += about_front(wish.service, stale)
        found += [
            one for key in stale.keys() & self._slices for one in self._slices[key].findings()
        ]
        if nodes := self._lonely_nodes(wish):
            found.append(lonely_finding(wish.service.local, nodes))
        for family in wish.families:
            if not self._activators.get(family):
                note = f"no activator with an {family.value} address is ready to take over"
                found.append(Finding(ScaleReason.NO_ACTIVATORS, note))
            found += self._slices[slices.key_of(name, family)].findings()
        return found

    # -- inside ------------------------------------------------------------------------------------

    def _lonely_nodes(self, wish: _Wish) -> Sequence[str]:
        """Return the nodes that take connections for a Service only while its pods run there.

        With traffic policy ``Local`` a node passes connections to its own endpoints only.
        """
        if not wish.service.local:
            return ()
        each_family = (self._activators.get(family, ()) for family in wish.families)
        return lonely(self._pods.nodes(wish.service.pods), each_family)

    def _observe(self, slice_: Field, now: float) -> ServiceName | None:
        metadata = slice_["metadata"]
        key = SliceKey(metadata["namespace"].text(), metadata["name"].text())
        parts = slices.name_parts(key.name)
        if parts is None:
            return None
        owner = ServiceName(key.namespace, parts[0])
        record = self._slices.get(key)
        # A slice that has lost the label still has the annotation.
        is_own = is_takeover(metadata) or bool(metadata["annotations"].at(PORT_ANNOTATION).text())
        if record is None:
            if not is_own:
                return None
            record = self._slices[key] = SliceRecord(owner, parts[1])
            self._orphans[key] = now
        if record.observe(slices.stored(slice_.value), now, is_own=is_own):
            self._note_port(record, now)
            self.touch(owner, now)
        return owner

    def _note_port(self, record: SliceRecord, now: float) -> None:
        """Record the port that a slice stores, unless this leader has allotted another one."""
        seen, owner = record.seen, record.owner
        if seen is None or not seen.port or record.holder is not Holder.SCALER:
            return
        if not self._started or self._ports.of(owner) in (None, seen.port):
            for name in self._ports.put(owner, seen.created, seen.port, now):
                self.touch(name, now)

    def _stays(self, key: SliceKey, record: SliceRecord, now: float) -> float:
        """Return until when a slice must not be deleted."""
        if key not in self._orphans or record.owner in self._wishes:
            return float("-inf")
        since = self._orphans[key]
        if since is None:
            since = self._orphans[key] = now
        return since + ORPHAN_STAYS

    def touch(self, name: ServiceName, now: float) -> None:
        """Compare the slices of a Service as soon as possible."""
        for key in slices.keys_of(name):
            if (record := self._slices.get(key)) is not None:
                self._check(key, record, now)
        for key in self._stale(name):
            record = SliceRecord(name, SliceFamily.IPV4, Holder.STALE)
            self._check(key, self._slices.setdefault(key, record), now)

    def _stale(self, name: ServiceName) -> Mapping[SliceKey, Kept]:
        """Return the slices of a front that Kubernetes wrote before it lost its selector.

        Controllers do nothing about a Service without a selector, so the scaler deletes them.
        """
        wish = self._wishes.get(name)
        if wish is None or not wish.service.is_front or wish.service.selects_beside:
            return {}
        return self._pods.of_controllers(wish.service.key)

    def _delete_stale(self, key: SliceKey, owner: ServiceName) -> Write | None:
        """Return the request that deletes a stale slice, when the scaler's have endpoints.

        Each proxy sees the changes of slices in their order, so it has those endpoints by then.
        """
        kept = self._stale(owner).get(key)
        if kept is None:
            del self._slices[key]
            return None
        families = self._wishes[owner].families
        if not all(self._slices[slices.key_of(owner, family)].listed for family in families):
            return None
        if kept.manager == MIRROR:  # the copy goes with the original
            return Write(key, slices.delete_endpoints(*owner))
        return Write(key, slices.delete(*key, kept.uid))

    def _check(self, key: SliceKey, record: SliceRecord, now: float) -> None:
        """Compare a slice as soon as possible; remove the record of one that nothing needs."""
        if record.owner not in self._wishes and record.holder is not Holder.SCALER:
            if not record.writes:
                self._slices.pop(key, None)
                self._orphans.pop(key, None)
                self._release(record.owner, now)
        elif not record.writes:
            self._agenda.add(key)

    def _release(self, name: ServiceName, now: float) -> None:
        """Release the port of a Service whose slices are gone."""
        if not self._slices.keys().isdisjoint(slices.keys_of(name)):
            return
        for lacking in self._ports.release(name, now):
            self.touch(lacking, now)

    def _wanted(self, record: SliceRecord, now: float) -> Mapping[str, Any] | Leave:
        """Return the wanted state of a slice."""
        wish, name = self._wishes.get(record.owner), record.owner
        if record.holder is Holder.FOREIGN or (wish is None and name in self._kept):
            return Leave.AS_IS
        if wish is None or record.family not in wish.families:
            return Leave.ABSENT
        service, pods, takes_over = wish.service, None, wish.takes_over
        assert service.port is not None
        if service.is_front and not takes_over:
            pods = self._pods.listing(service.pods, record.family, service.port.name)
            takes_over = pods is None
        activators = self._activators.get(record.family, ()) if takes_over else ()
        if takes_over and not activators and record.seen is not None:
            return Leave.AS_IS
        created = record.seen.created if record.seen else ""
        port = self._ports.allot(name, now, created)
        if port is None:
            return Leave.AS_IS
        return slices.slice_object(service, record.family, port, activators, pods)
