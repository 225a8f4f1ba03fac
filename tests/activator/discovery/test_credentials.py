from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from activator.discovery import api_server
from activator.discovery.api_server import ClusterConfigError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist: set it to a kubeconfig file"),
        ("", "cannot be used"),
        ("[1, 2]", "cannot be used"),
        ("a: [", "cannot be used"),
        ("current-context: x\ncontexts: []\n", "cannot be used"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_one_clear_error(
    content: str | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ClusterConfigError, match=message) as caught:
        await api_server.load(str(path), {})
    assert str(path) in str(caught.value)


async def test_a_folder_instead_of_a_kubeconfig_is_called_one(tmp_path: Path) -> None:
    paths = f"{tmp_path / 'nothing'}{os.pathsep}{tmp_path}"
    for environ, setting in (({}, "--kubeconfig"), ({"KUBECONFIG": paths}, "KUBECONFIG")):
        with pytest.raises(ClusterConfigError) as caught:
            await api_server.load(paths, environ)
        assert str(caught.value) == (
            f"{setting} names {tmp_path}, a folder: set it to a kubeconfig file"
        )


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {},
            "Set KUBECONFIG to a kubeconfig file. Without a cluster, `activator demo` serves and ",
        ),
        (
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
            "its service account cannot be used",
        ),
    ],
)
async def test_no_cluster_is_one_clear_error(
    environ: dict[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ClusterConfigError, match=message):
        await api_server.load(None, environ)


PLUGIN = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {"token": "from-a-plugin"},
}


@pytest.mark.parametrize(
    ("user", "token"),
    [
        ({"token": "t"}, "t"),
        ({"tokenFile": "token"}, "from-a-file"),
        (
            {
                "exec": {
                    "apiVersion": PLUGIN["apiVersion"],
                    "command": "echo",
                    "args": [json.dumps(PLUGIN)],
                    "interactiveMode": "Never",
                }
            },
            "from-a-plugin",
        ),
    ],
    ids=["token", "file", "plugin"],
)
async def test_a_token_is_found_wherever_the_kubeconfig_has_it(
    user: dict[str, Any], token: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("from-a-file")
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    configuration = await api_server.load(str(path), {})
    assert configuration.host == "https://127.0.0.1:9"
    found = await api_server.authorization(configuration)
    assert found == {"Authorization": f"Bearer {token}"}
