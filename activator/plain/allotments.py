"""Reads the port that is allotted to a Service, from the slice that the scaler writes for it.

The program ``activator scale`` writes these slices, and every activator listens on the port.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from activator.objects.fields import Field, root
from activator.plain.slices import SERVICE_LABEL, is_takeover

#: The annotation of a takeover slice that stores the allotted port.
PORT_ANNOTATION: Final = "activator.dev/port"

_MAX_PORT: Final = 65_535


class Allotment(NamedTuple):
    """One takeover slice.

    Attributes:
        created: ``creationTimestamp`` of the slice; of two that claim a port the older has it.
        service: the name of the Service, in the namespace of the slice.
        port: where the activators listen for this Service alone; 0 if the annotation is wrong.
        is_empty: whether the slice lists no activator, so that new connections reach the pods.
            With route ``front`` it then lists the pods: each of them has a target.
    """

    created: str
    service: str
    port: int
    is_empty: bool


def parse(obj: object) -> Allotment | None:
    """Return the allotment that a takeover slice stores; None for any other slice.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Raises:
        ManifestError: a field is wrong.
    """
    slice_ = root(obj, "EndpointSlice")
    metadata = slice_["metadata"]
    if not is_takeover(metadata):
        return None
    return Allotment(
        metadata["creationTimestamp"].text(),
        metadata["labels"].at(SERVICE_LABEL).text(),
        port_of(metadata),
        all(each["targetRef"].value is not None for each in slice_["endpoints"].items()),
    )


def port_of(metadata: Field) -> int:
    """Return the port that a takeover slice stores; 0 if the annotation is missing or wrong.

    Raises:
        ManifestError: the annotation is no text.
    """
    text = metadata["annotations"].at(PORT_ANNOTATION).text()
    is_port = text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _MAX_PORT
    return int(text) if is_port else 0
