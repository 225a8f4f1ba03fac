"""Reads ConfigMaps, Secrets and trust bundles of the system namespace, and passes them on.

Must not know the meaning of the values. No message may contain a value of a Secret.
Knative's counterparts: the informed watcher of knative.dev/pkg/configmap, and
pkg/activator/certificate.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from activator.knative.words import TRUST_BUNDLE_LABEL
from activator.objects.fields import Field, root


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """The texts of a ConfigMap.

    Attributes:
        is_trust_bundle: whether the texts are certificates to trust.
    """

    data: Mapping[str, str]
    is_trust_bundle: bool = False


@dataclass(frozen=True, slots=True)
class Secret:
    """The decoded values of a Secret. The object's text has only their names."""

    data: Mapping[str, bytes]

    def __repr__(self) -> str:
        return f"Secret({', '.join(sorted(self.data))})"


class SystemObjects:
    """Takes the configuration of the activator itself, and passes each object to its reader.

    Each call replaces the previous one for the same object.

    Arguments:
        config_maps: reader of a ConfigMap's data, by the object's name. Other names are ignored.
        secrets: reader of a Secret's decoded data, by the object's name.
        trust_bundles: reader of all certificates to trust, PEM.
    """

    def __init__(
        self,
        config_maps: Mapping[str, Callable[[Mapping[str, str]], None]],
        secrets: Mapping[str, Callable[[Mapping[str, bytes]], None]],
        trust_bundles: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._config_maps = config_maps
        self._secrets = secrets
        self._trust_bundles = trust_bundles

    def set_config_map(self, name: str, data: Mapping[str, str]) -> None:
        """Pass a ConfigMap to its reader; ``data`` is empty if the object is deleted."""
        if (read := self._config_maps.get(name)) is not None:
            read(data)

    def set_secret(self, name: str, data: Mapping[str, bytes]) -> None:
        """Pass a Secret to its reader; ``data`` is empty if the object is deleted."""
        if (read := self._secrets.get(name)) is not None:
            read(data)

    def set_trust_bundles(self, pems: tuple[str, ...]) -> None:
        """Pass all certificates to trust to their reader; they replace the previous ones."""
        self._trust_bundles(pems)


def parse_config_map(obj: object) -> ConfigMap:
    """Return the texts of a ConfigMap object, without ``binaryData``, as Knative does.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Raises:
        ManifestError: a field is wrong.
    """
    config_map = root(obj, "ConfigMap")
    data = config_map["data"]
    labels = config_map["metadata"]["labels"].mapping()
    return ConfigMap(
        data.texts(),
        is_trust_bundle=TRUST_BUNDLE_LABEL in labels,
    )


def parse_secret(obj: object) -> Secret:
    """Return the decoded values of a Secret object.

    Arguments:
        obj: the object as decoded from JSON or YAML. In a file it may have ``stringData``, which
            wins over ``data``, as at an API server.

    Raises:
        ManifestError: a field is wrong. The message names the key, and does not show the value.
    """
    secret = root(obj, "Secret")
    encoded, plain = _texts(secret["data"]), _texts(secret["stringData"])
    data = {name: _decoded(secret["data"].at(name), text) for name, text in encoded.items()}
    return Secret(data | {name: text.encode() for name, text in plain.items()})


def _texts(values: Field) -> dict[str, str]:
    """Return the members of an object, which must all be strings."""
    if not isinstance(values.value, dict | None):
        values.fail("expected an object (the value is not shown)")
    found = {}
    for name, value in (values.value or {}).items():
        if not isinstance(value, str | None):
            values.at(str(name)).fail("expected a string (the value is not shown)")
        found[str(name)] = value or ""
    return found


def _decoded(field: Field, text: str) -> bytes:
    # Files wrap long values. Go's decoder ignores line ends as well.
    packed = text.replace("\n", "").replace("\r", "")
    try:
        return base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        field.fail(
            "expected base64 (the value is not shown): encode it with `base64 -w0`, or use "
            "`kubectl create secret`, which does"
        )
