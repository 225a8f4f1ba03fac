"""Reads the ConfigMap ``activator-pages``: each key is a template of waiting pages.

The parser of templates is an argument. A key that begins with ``_`` is an example. Knative has no
such ConfigMap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from activator.knative.configmaps.following import ConfigMapReader, Read
from activator.settings.values import Kind

NAME: Final = "activator-pages"

T = TypeVar("T")


def reader_of(parse: Callable[[str], T]) -> Read[Mapping[str, T]]:
    """Return a function that reads all templates.

    A template that cannot be used keeps its last good version. Without one it does not exist, so
    its services have the default page.

    Arguments:
        parse: returns the template of a text; raises ValueError for an unusable text.
    """

    def parse_or_none(text: str) -> T | None:
        return parse(text)

    kind: Kind[T | None] = Kind(parse_or_none, "", "TEMPLATE")

    def read(reader: ConfigMapReader, last_good: Mapping[str, T]) -> Mapping[str, T]:
        found: dict[str, T] = {}
        for key in reader:
            if key.startswith("_"):
                continue
            before = last_good.get(key)
            stays = "the default page" if before is None else "its last good version"
            template = reader.settle(
                reader.read(key, kind, None), before, stays=f"{stays} stays in force"
            )
            if template is not None:
                found[key] = template
        return found

    return read
