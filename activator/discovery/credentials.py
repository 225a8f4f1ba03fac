"""Finds the cluster's address and credentials, as kubectl and client-go do.

It must not know the requests. kubernetes_asyncio reads the files; it is imported only when it is
needed. Counterpart: Knative's pkg/injection and client-go's clientcmd package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from activator.discovery import kubernetes_package
from activator.discovery.source import SourceError
from activator.discovery.transport import describe

HOME_KUBECONFIG = "~/.kube/config"


class ClusterConfigError(SourceError):
    """The configuration is unusable; the text says which setting to correct."""


async def load(kubeconfig: str | None, environ: Mapping[str, str]) -> Any:
    """Read configuration and credentials.

    Arguments:
        kubeconfig: path of a kubeconfig file, or several paths joined by ``:``. None or empty means
            the service account of this pod; outside of a cluster ``~/.kube/config``.
        environ: environment variables; they show whether this process runs in a cluster.

    Returns:
        kubernetes_asyncio's ``Configuration``, which has no types.

    Raises:
        ClusterConfigError: there is no usable configuration.
    """
    package = kubernetes_package.load()
    config, configuration = package.config, package.configuration()
    home = _expanded(HOME_KUBECONFIG)
    if kubeconfig:
        await _load_kubeconfig(kubeconfig, configuration)
    elif environ.get("KUBERNETES_SERVICE_HOST"):
        try:
            config.load_incluster_config(configuration, try_refresh_token=False, environ=environ)
        except (config.ConfigException, OSError) as error:
            raise ClusterConfigError(
                f"in a cluster, but its service account cannot be used: {error} Mount the "
                "token (automountServiceAccountToken), or set KUBECONFIG"
            ) from error
    elif _exists(home):
        await _load_kubeconfig(home, configuration)
    else:
        raise ClusterConfigError(
            "no cluster: KUBERNETES_SERVICE_HOST is not set, so this is no pod, and there is "
            f"no {HOME_KUBECONFIG}. Set KUBECONFIG to a kubeconfig file, or work without a "
            "cluster: `activator local --manifests DIR`"
        )
    return configuration


async def _load_kubeconfig(paths: str, configuration: Any) -> None:
    config = kubernetes_package.load().config
    names = paths.split(os.pathsep)
    if not any(_exists(path) for path in names):
        folder = next(filter(_is_folder, names), None)
        wrong = f"{paths}, which does not exist" if folder is None else f"{folder}, a folder"
        raise ClusterConfigError(f"KUBECONFIG names {wrong}: set it to a kubeconfig file")
    try:
        await config.load_kube_config(config_file=paths, client_configuration=configuration)
    except Exception as error:
        # The loader does not check the file, and fails with any exception.
        raise ClusterConfigError(
            f"the kubeconfig {paths} cannot be used: {describe(error)}; check it with `kubectl "
            "config view`, or set KUBECONFIG to another file"
        ) from error


def _expanded(path: str) -> str:
    return str(Path(path).expanduser())


def _exists(path: str) -> bool:
    return Path(path).expanduser().is_file()


def _is_folder(path: str) -> bool:
    return Path(path).expanduser().is_dir()


async def authorization(configuration: Any) -> dict[str, str]:
    """Return the header field with the token; no field without a token."""
    settings = await configuration.auth_settings()
    value = settings.get("BearerToken", {}).get("value")
    # Handwritten token files end with a line feed, which no header field may contain.
    return {"Authorization": str(value).strip()} if value else {}


def transport(configuration: Any) -> tuple[object, ...]:
    """Return the values of a configuration that need a new connection if they change.

    The token is not among them.
    """
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return (
        configuration.host,
        configuration.verify_ssl,
        configuration.tls_server_name,
        configuration.proxy,
        *(_content(file) for file in files),
    )


def _content(file: str | None) -> bytes | None:
    try:
        return Path(file).read_bytes() if file else None
    except OSError:
        return None
