"""Turns the ConfigMaps and Secrets of the system namespace into names and values.

Pure: an object goes in, a value or ``ManifestError`` comes out. It must not know who reads them,
nor what the values mean; and no value of a Secret may get into a message.
Knative's counterparts: the informed watcher of knative.dev/pkg/configmap, and
pkg/activator/certificate.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from activator.objects.fields import Field, root

TRUST_BUNDLE_LABEL = "networking.knative.dev/trust-bundle"


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A ConfigMap's texts.

    Attributes:
        is_trust_bundle: whether its texts are certificates to trust.
    """

    data: Mapping[str, str]
    is_trust_bundle: bool = False


@dataclass(frozen=True, slots=True)
class Secret:
    """A Secret's values, decoded; not shown where the object is printed."""

    data: Mapping[str, bytes]

    def __repr__(self) -> str:
        return f"Secret({', '.join(sorted(self.data))})"


def parse_config_map(obj: object) -> ConfigMap:
    """Reads a ConfigMap object; ``binaryData`` is left out, as by Knative.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Raises:
        ManifestError: a field is wrong.
    """
    config_map = root(obj, "ConfigMap")
    data = config_map["data"]
    labels = config_map["metadata"]["labels"].mapping()
    return ConfigMap(
        {str(name): data.at(str(name)).text() for name in data.mapping()},
        is_trust_bundle=TRUST_BUNDLE_LABEL in labels,
    )


def parse_secret(obj: object) -> Secret:
    """Reads a Secret object.

    Arguments:
        obj: the object as decoded from JSON or YAML. ``stringData``, which an API server takes but
            never gives out, may stand in a file; it wins over ``data``, as there.

    Raises:
        ManifestError: a field is wrong. The message names the key and never shows the value.
    """
    secret = root(obj, "Secret")
    encoded, plain = _texts(secret["data"]), _texts(secret["stringData"])
    data = {name: _decoded(secret["data"].at(name), text) for name, text in encoded.items()}
    return Secret(data | {name: text.encode() for name, text in plain.items()})


def _texts(values: Field) -> dict[str, str]:
    """The members of an object that must all be strings."""
    if not isinstance(values.value, dict | None):
        values.fail("expected an object (what was found is not shown)")
    found = {}
    for name, value in (values.value or {}).items():
        if not isinstance(value, str | None):
            values.at(str(name)).fail("expected a string (what was found is not shown)")
        found[str(name)] = value or ""
    return found


def _decoded(field: Field, text: str) -> bytes:
    # Files wrap long values, and Go's decoder leaves out line ends, too.
    packed = text.replace("\n", "").replace("\r", "")
    try:
        return base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        field.fail(
            "expected base64 (the value is not shown): encode it with `base64 -w0`, or use "
            "`kubectl create secret`, which does"
        )
