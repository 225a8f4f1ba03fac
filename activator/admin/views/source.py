"""Define the fields of the source of objects: its watches or its folder, and broken objects."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.admin.views.fields import says


class ObjectWarningView(TypedDict):
    """A problem of an object: the object is broken, or a part of it has no effect."""

    kind: Annotated[str, says("kind of the object")]
    namespace: Annotated[str, says("namespace of the object")]
    name: Annotated[str, says("name of the object")]
    reason: Annotated[
        str | None,
        says(
            "`invalid` for a broken object, or one with a wrong annotation; for a plain "
            "Service another [reason](#annotations-of-a-service); else `null`"
        ),
    ]
    warning: Annotated[str, says("which part has no effect, and why, for people")]


class WatchView(TypedDict):
    """The watch of one kind of objects."""

    ageSeconds: Annotated[
        float | None,
        says(
            "time since the API server last sent something for this kind, usually at most 60 s; "
            "`null` for a kind that is optional and missing"
        ),
    ]
    error: Annotated[
        str | None,
        says("why the watch fails now; `null` if it works. The last good state stays in force"),
    ]
    drifted: Annotated[
        int,
        says("objects for which a self-check found a missed event, since the start"),
    ]


class ManifestsView(TypedDict):
    """The folder of objects, without a cluster."""

    folder: Annotated[str, says("path of the folder")]
    ageSeconds: Annotated[
        float, says("time since the activator last read the folder, usually at most 5 s")
    ]
    lastChangeSecondsAgo: Annotated[float, says("time since an object of the folder last changed")]
