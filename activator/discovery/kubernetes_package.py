"""Imports what is used of kubernetes_asyncio: credentials and TLS, without the generated API.

At its first name the package imports 600 generated modules: 35 MiB and half a second. Reading
credentials uses none of them. So this module imports the few that it needs below empty packages,
and then removes all of them from ``sys.modules``: others import the package as ever.
It must not know what a configuration is for.
"""

from __future__ import annotations

import logging
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final, NamedTuple

logger = logging.getLogger(__name__)

_PACKAGE: Final = "kubernetes_asyncio"
_CLIENT: Final = f"{_PACKAGE}.client"
# client/configuration.py uses it for passwords of HTTP Basic alone; it brings zipfile and csv.
_FOR_PASSWORDS: Final = "urllib3"


class Package(NamedTuple):
    """The parts of kubernetes_asyncio that are used; they have no types.

    Attributes:
        config: its module ``config``, which reads kubeconfig files and service accounts.
        configuration: its class ``client.Configuration``.
        rest_client: its class ``client.rest.RESTClientObject``, which sets up TLS.
    """

    config: Any
    configuration: Any
    rest_client: Any


@cache
def load() -> Package:
    """Import those parts; the whole package where that cannot be done in part.

    Raises:
        ImportError: the package is not installed.
    """
    if _PACKAGE in sys.modules:
        return _whole()
    before = set(sys.modules)
    try:
        return _light()
    except Exception as error:
        _forget(before)
        package = _whole()
        before = set(sys.modules)
        logger.info("%s is imported as a whole, which takes 35 MiB more: %r", _PACKAGE, error)
        return package
    finally:
        _forget(before)


def _whole() -> Package:
    from kubernetes_asyncio import client, config
    from kubernetes_asyncio.client.rest import RESTClientObject

    return Package(config, client.Configuration, RESTClientObject)


def _light() -> Package:
    if _FOR_PASSWORDS not in sys.modules:
        _put_empty(_FOR_PASSWORDS).__dict__["__getattr__"] = _of_urllib3
    _put_empty(_PACKAGE)
    client = _put_empty(_CLIENT)
    from kubernetes_asyncio.client.configuration import Configuration
    from kubernetes_asyncio.client.rest import RESTClientObject

    # What config/ imports of the client; it calls the second in functions that are not used here.
    client.__dict__.update(Configuration=Configuration, ApiClient=_api_client)
    from kubernetes_asyncio import config

    return Package(config, Configuration, RESTClientObject)


def _put_empty(name: str) -> ModuleType:
    """Register a package whose modules can be imported, without running its ``__init__``."""
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package = sys.modules[name] = module_from_spec(spec)
    return package


def _of_urllib3(name: str) -> Any:
    return getattr(import_module(_FOR_PASSWORDS), name)


def _api_client(*args: Any, **kwargs: Any) -> Any:
    return import_module(_CLIENT).ApiClient(*args, **kwargs)


def _forget(before: set[str]) -> None:
    """Remove modules of the two packages that were not there before."""
    for name in sys.modules.keys() - before:
        if name.partition(".")[0] in (_PACKAGE, _FOR_PASSWORDS):
            del sys.modules[name]
