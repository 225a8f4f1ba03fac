"""Services with one workload."""

from __future__ import annotations

from activator.scale.decisions.sharing import Sharing
from activator.scale.reports.load import Name
from activator.scale.workloads.actuator import Target
from activator.scale.workloads.subresource import KNOWN
from tests.activator.scale.decisions.records import HELLO

ONE, TWO = Name("shop", "one"), Name("shop", "two")
OTHER = Target(KNOWN["statefulset"], "shop", "other")


def test_services_of_a_workload_are_sorted_and_leave_it() -> None:
    sharing = Sharing()
    sharing.move(TWO, None, HELLO)
    sharing.move(ONE, None, HELLO)
    sharing.move(ONE, HELLO, HELLO)
    assert (list(sharing.of(HELLO)), list(sharing.of(OTHER))) == ([ONE, TWO], [])
    sharing.move(ONE, HELLO, OTHER)
    assert (list(sharing.of(HELLO)), list(sharing.of(OTHER))) == ([TWO], [ONE])
    sharing.move(TWO, HELLO, None)
    assert list(sharing.of(HELLO)) == []
    sharing.clear()
    assert list(sharing.of(OTHER)) == []
