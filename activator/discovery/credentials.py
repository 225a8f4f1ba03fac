"""Reads where the cluster is and which credentials lead there, as kubectl and client-go do.

It must not know what is sent. kubernetes_asyncio reads the files, and is imported in use.
Counterpart: Knative's pkg/injection and client-go's clientcmd package.
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
    """No cluster can be reached with this configuration. Says what to set."""


async def load(kubeconfig: str | None, environ: Mapping[str, str]) -> Any:
    """Reads configuration and credentials.

    Arguments:
        kubeconfig: path of a kubeconfig file, or several joined by ``:``; None or empty for the
            cluster that this process runs in, or else ``~/.kube/config``.
        environ: environment variables, which say whether this process runs in a cluster.

    Returns:
        kubernetes_asyncio's ``Configuration``, which has no types.

    Raises:
        ClusterConfigError: there is none that can be used.
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
        # The loader takes the file for well-formed, and fails with whatever Python raises.
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
    """The request header that carries the token, if there is one."""
    settings = await configuration.auth_settings()
    value = settings.get("BearerToken", {}).get("value")
    # Token files written by hand end with a line feed, which no header may hold.
    return {"Authorization": str(value).strip()} if value else {}


def transport(configuration: Any) -> tuple[object, ...]:
    """Where a configuration leads and how, without the token: what makes a connection another."""
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
