"""Define the fields of the clients of waiting requests."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.admin.views.fields import says
from throttler.request_policies import Profile, WaitMode


class ModesView(TypedDict):
    """Queued requests by mode: the response of their clients in the meantime."""

    hold: Annotated[int, says("clients that get nothing until a pod responds")]
    page: Annotated[int, says("browsers that get the waiting page if no pod responds in time")]
    heartbeat: Annotated[int, says("clients whose event stream begins before a pod responds")]
    refuse: Annotated[int, says("clients that get 503 at once; always 0 but for a moment")]


class WhileWaitingView(TypedDict):
    """What the clients of waiting requests get, by annotations."""

    modes: Annotated[
        list[str], says("the first that fits a request counts; if none fits, `hold`", WaitMode)
    ]
    pageAfterSeconds: Annotated[float, says("time of waiting after which a browser gets the page")]
    pageTemplate: Annotated[
        str | None,
        says("key of the page's template in the ConfigMap `activator-pages`; `null` for none"),
    ]
    heartbeatSeconds: Annotated[
        float, says("time until an event stream begins, and between two comments in it")
    ]
    earlyHeads: Annotated[
        int, says("event streams that the activator began before a pod responded, since the start")
    ]
    queuedByMode: Annotated[ModesView, says("queued requests by mode")]
    leaseSeconds: Annotated[
        float,
        says(
            "time for which open pages and refused clients still count as one concurrent request; "
            "0 without any"
        ),
    ]


class ProfileView(TypedDict):
    """The kind of application of a revision, and the limit of waits for its pods."""

    profile: Annotated[
        str | None, says("kind of application, by annotation; `null` for any", (*Profile, None))
    ]
    waitSeconds: Annotated[
        float | None,
        says("limit of the wait for a pod; `null`: `timeoutSeconds` limits wait and response"),
    ]
