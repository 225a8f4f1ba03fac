"""The settings in force for a revision: its specification, and where its requests may go.

The revision's throttler changes them; pods, requests and helpers read them. So these need no
pointer to the throttler itself.
"""

from __future__ import annotations

from typing import final

from throttler.mesh import Reach
from throttler.model import Revision


@final
class RevisionConfig:
    """The configuration of one revision; one object for the whole life of its throttler.

    Attributes:
        revision: its specification.
        reach: the destinations that requests may have.
        last_resort: whether Kubernetes lists only pods that terminate and still serve.
    """

    __slots__ = ("last_resort", "reach", "revision")

    def __init__(self, revision: Revision, reach: Reach) -> None:
        self.revision = revision
        self.reach = reach
        self.last_resort = False
