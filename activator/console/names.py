"""Read the name of a revision from the command line, and find names that may have been meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from activator.console.responses import Node

#: Maximum of similar names for an unknown one.
OFFERED: Final = 5


def key(words: str, given: str | None = None) -> tuple[str, str]:
    """Return the namespace and the name; the default namespace is ``default``.

    Arguments:
        given: the namespace of the option, if it was given.

    Raises:
        ValueError: there are two slashes, an empty part, or two namespaces.
    """
    namespace, slash, name = words.rpartition("/")
    if not name or (slash and not namespace) or "/" in namespace:
        raise ValueError(f"expected NAMESPACE/REVISION or REVISION, got {words!r}")
    if given and namespace not in ("", given):
        raise ValueError(f"--namespace is {given!r}, and the revision is {words!r}")
    return namespace or given or "default", name


def near(response: Node, namespace: str, name: str) -> list[str]:
    """Return similar names, the most similar first.

    Arguments:
        response: response to ``GET /api/v1/revisions``.

    Raises:
        ValueError: the response does not follow the API; the text names the field.
    """
    known = [(one.text("namespace"), one.text("name")) for one in response.nodes("revisions")]
    elsewhere = [f"{ns}/{revision}" for ns, revision in known if revision == name]
    # The name of a Service stands for its newest revision.
    versions = [f"{ns}/{r}" for ns, r in known if ns == namespace and r.startswith(name)]
    # Compare names alone: a long namespace in common would make any two of them alike.
    close = get_close_matches(name, {revision for _, revision in known}, n=OFFERED)
    alike = [f"{ns}/{revision}" for each in close for ns, revision in known if revision == each]
    return list(dict.fromkeys((*elsewhere, *sorted(versions, reverse=True), *alike)))[:OFFERED]
