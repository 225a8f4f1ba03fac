"""Define the fields about what wakes a revision, and keeps it awake."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.admin.views.fields import says


class WakeRulesView(TypedDict):
    """Which requests may start a pod, by annotations; each rule must allow a request."""

    methods: Annotated[list[str], says("the methods that may; empty for all")]
    notUserAgents: Annotated[
        list[str], says("texts in a User-Agent that may not, in lower case; empty for none")
    ]
    notPaths: Annotated[list[str], says("beginnings of paths that may not; empty for none")]
    requiredHeader: Annotated[str | None, says("header that a request must have; `null` for none")]
    asleepStatus: Annotated[
        int, says("status of the response to other requests while no pod is usable")
    ]


class AuthorizationView(TypedDict):
    """The server that allows requests to wait, by annotations."""

    url: Annotated[str, says("URL of the server, without its query")]
    always: Annotated[
        bool, says("whether it decides about each request, not only one that would wait")
    ]
    cacheSeconds: Annotated[
        float, says("time for which a decision counts for the same credentials; 0 for one request")
    ]


class AgentView(TypedDict):
    """A client whose requests keep a revision awake."""

    agent: Annotated[
        str, says("product in its User-Agent; browsers are `a browser`, others `no User-Agent`")
    ]
    requestsPerMinute: Annotated[
        int, says("its requests a minute that arrived while no other request was there")
    ]
