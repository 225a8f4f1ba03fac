"""Define the fields of the activator that responds, and of the source of its objects."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.build import Build


class ObjectWarningView(TypedDict):
    """A problem of an object: the object is broken, or a part of it has no effect."""

    kind: Annotated[str, "kind of the object"]
    namespace: Annotated[str, "namespace of the object"]
    name: Annotated[str, "name of the object"]
    reason: Annotated[
        str | None,
        "`invalid` for a broken object, or one with a wrong annotation; for a plain "
        "Service another [reason](#annotations-of-a-service); else `null`",
    ]
    warning: Annotated[str, "which part has no effect, and why"]


class WatchView(TypedDict):
    """The watch of one kind of objects."""

    ageSeconds: Annotated[
        float | None,
        "time since the API server last sent something for this kind, usually at most 60 s; "
        "`null` for an optional kind that is missing",
    ]
    error: Annotated[
        str | None,
        "why the watch fails now; `null` if it works. The last good state stays in force",
    ]
    drifted: Annotated[int, "objects for which a self-check found a missed event, since the start"]


class ManifestsView(TypedDict):
    """The folder of objects, without a cluster."""

    folder: Annotated[str, "path of the folder"]
    ageSeconds: Annotated[float, "time since the folder was last read, usually at most 5 s"]
    lastChangeSecondsAgo: Annotated[float, "time since an object of the folder last changed"]


class AutoscalerView(TypedDict):
    """The link to an autoscaler: Knative's, or `activator scale`."""

    connected: Annotated[bool, "whether the connection is open"]
    ageSeconds: Annotated[
        float | None,
        "time since the autoscaler last sent something, usually at most 4 s; since the start if "
        "it never did",
    ]
    lastSentSecondsAgo: Annotated[
        float | None, "time since the last report; `null` before the first"
    ]
    lastError: Annotated[str | None, "why the last dial or connection failed; `null` if none did"]


class ActivatorView(TypedDict):
    """The activator that responds."""

    podName: Annotated[str, "name of the activator's pod"]
    version: Annotated[str, "version of the activator"]
    build: Annotated[str, "`pure` if the source runs, `compiled` if extension modules do", Build]
    uptimeSeconds: Annotated[float, "time since the start of the process"]
    ready: Annotated[bool, "whether `GET /readyz` responds 200"]
    notReadyReason: Annotated[str | None, "why not; `null` if it is ready"]
    manifestErrors: Annotated[
        dict[str, str],
        "errors in the files of `--manifests`, a line for each object, by path",
    ]
    objectWarnings: Annotated[
        list[ObjectWarningView],
        "valid objects without effect, such as Endpoints without a label, and Services whose port "
        "cannot be bound; at most 100",
    ]
    certificateWarnings: Annotated[list[str], "certificates that expired, or will in 30 days"]
    watches: Annotated[
        dict[str, WatchView],
        "the watches, by kind of objects; empty without a cluster",
    ]
    manifests: Annotated[ManifestsView | None, "the folder of `--manifests`; `null` without it"]
    autoscaler: Annotated[
        AutoscalerView | None, "the link to Knative's autoscaler; `null` without one"
    ]
    scaler: Annotated[
        AutoscalerView | None,
        "the link to `activator scale`; `null` without one",
    ]
    scalerPage: Annotated[str | None, "address of the scaler's page; `null` if it is not set"]
    admission: Annotated[str | None, "address of the admission port; `null` without `--admit-port`"]
