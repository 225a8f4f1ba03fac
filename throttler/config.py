"""What is in force for a revision: its specification, and how its pods are reached.

The throttler of the revision changes it; pods, requests and helpers read it. So they need no
pointer to the throttler itself.
"""

from __future__ import annotations

from typing import final

from throttler.mesh import Reach
from throttler.model import Revision


@final
class RevisionConfig:
    """The configuration of one revision; one object for as long as its throttler lives.

    Attributes:
        revision: its specification.
        reach: what requests may be sent to.
    """

    __slots__ = ("reach", "revision")

    def __init__(self, revision: Revision, reach: Reach) -> None:
        self.revision = revision
        self.reach = reach
