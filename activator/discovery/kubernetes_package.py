"""Imports only credentials and TLS of kubernetes_asyncio, without its generated API.

The package itself imports 600 generated modules, which take 35 MiB and half a second. Credentials
need none of them. So this module imports a few modules below empty packages. Then it removes them
from ``sys.modules``, so that other programs in this process can import the whole package.
It must not know the use of a configuration.
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
# client/configuration.py needs it only for passwords of HTTP Basic; it imports zipfile and csv.
_FOR_PASSWORDS: Final = "urllib3"


class Package(NamedTuple):
    """The imported parts of kubernetes_asyncio; they have no types.

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
    """Import these parts; if that fails, the whole package.

    Raises:
        ImportError: the package is not installed.
    """
    if _PACKAGE in sys.modules:
        return _whole()
    before = set(sys.modules)
    try:
        return _light()
    except Exception as error:
        _remove_new(before)
        package = _whole()
        before = set(sys.modules)
        logger.info("%s is imported as a whole, which takes 35 MiB more: %r", _PACKAGE, error)
        return package
    finally:
        _remove_new(before)


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

    # config/ imports both from the client. It calls ApiClient only in functions without use here.
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
    # Another thread may need the package before `load` ends, such as the exporter of traces.
    _remove_empty_urllib3()
    return getattr(import_module(_FOR_PASSWORDS), name)


def _remove_empty_urllib3() -> None:
    if vars(sys.modules.get(_FOR_PASSWORDS, sys)).get("__getattr__") is _of_urllib3:
        del sys.modules[_FOR_PASSWORDS]


def _api_client(*args: Any, **kwargs: Any) -> Any:
    return import_module(_CLIENT).ApiClient(*args, **kwargs)


def _remove_new(before: set[str]) -> None:
    """Remove the modules of the package that are new since ``before``, and the empty urllib3."""
    _remove_empty_urllib3()
    for name in sys.modules.keys() - before:
        if name.partition(".")[0] == _PACKAGE:
            del sys.modules[name]
