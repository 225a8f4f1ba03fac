"""Reads a ConfigMap that must have no unusable key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from activator.knative.configmaps.following import ConfigMapError, ConfigMapReader, Read

T = TypeVar("T")


def strictly(read: Read[T], data: Mapping[str, str], default: T) -> T:
    reader = ConfigMapReader(data)
    value = read(reader, default)
    if reader.problems:
        raise ConfigMapError(reader.problems)
    return value
