"""Which modules of kubernetes_asyncio the activator imports; each test starts a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run(program: str, *path: Path) -> str:
    """Run a program; return its standard output and log."""
    start = f"import gc, logging, sys; sys.path[:0] = {[str(each) for each in path]}\n"
    start += "gc.disable()\n"  # an import of the whole package makes a million objects
    start += "logging.basicConfig(level='INFO', stream=sys.stdout)\n"
    start += "from activator.discovery.kubernetes_package import load\n"
    command = [sys.executable, "-c", start + program]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_only_credentials_and_tls_are_imported() -> None:
    """Fail where another version of the package imports more for them: see ``_light``."""
    printed = run(
        "imported = set()\n"
        "class Finder:\n"
        "    find_spec = lambda name, *_: imported.add(name)\n"
        "sys.meta_path.insert(0, Finder)\n"
        "package = load()\n"
        "print(package.configuration.__module__, package.rest_client.__module__)\n"
        "print(*sorted(name for name in imported if name.startswith('kubernetes_asyncio')))\n"
        "print(*{'urllib3.util', 'dateutil', 'multiprocessing.pool', 'zipfile'} & imported)\n"
        "print(*{'kubernetes_asyncio', 'urllib3'} & set(sys.modules))\n"
    )
    origin, imported, unneeded, left = printed.splitlines()
    assert origin == "kubernetes_asyncio.client.configuration kubernetes_asyncio.client.rest"
    names = {name.removeprefix("kubernetes_asyncio") for name in imported.split()}
    of_client = {name for name in names if not name.startswith(".config")}
    assert of_client == {
        *("", ".client"),
        *(".client.configuration", ".client.exceptions", ".client.rest"),
    }
    assert unneeded == left == ""


def test_the_rest_of_the_package_can_be_imported_as_ever() -> None:
    printed = run(
        "package = load()\n"
        "import kubernetes_asyncio, urllib3\n"
        "from kubernetes_asyncio import client, dynamic, watch\n"
        "from kubernetes_asyncio.client import ApiClient, CoreV1Api, V1Pod\n"
        "from kubernetes_asyncio.client.api_client import ApiClient as its_own\n"
        "print(ApiClient is its_own, urllib3.PoolManager.__name__)\n"
        "print(V1Pod(kind='Pod').kind, CoreV1Api.__name__, watch.Watch.__name__)\n"
        "print(kubernetes_asyncio.__version__ == client.__version__)\n"
    )
    assert printed.splitlines() == ["True PoolManager", "Pod CoreV1Api Watch", "True"]


def test_each_module_of_the_package_can_be_the_first_that_others_import() -> None:
    names = ["client", "config", "dynamic", "watch", "client.models"]
    printed = run(
        "import importlib, os\n"
        "load()\n"
        f"for name in {names}:\n"
        "    if os.fork() == 0:\n"
        "        importlib.import_module(f'kubernetes_asyncio.{name}')\n"
        "        sys.modules['kubernetes_asyncio'].client.V1Pod\n"
        "        print(name)\n"
        "        break\n"
        "    os.wait()\n"
    )
    assert printed.split() == names


def test_a_client_of_the_package_can_be_made_by_its_config() -> None:
    """The package itself uses ``ApiClient`` in one place only; the activator does not use it."""
    printed = run(
        "import asyncio\n"
        "config = {'current-context': 'x', 'contexts': [{'name': 'x', 'context': {'cluster': 'c',"
        " 'user': 'u'}}], 'users': [{'name': 'u', 'user': {'token': 't'}}],"
        " 'clusters': [{'name': 'c', 'cluster': {'server': 'http://127.0.0.1:9'}}]}\n"
        "async def main():\n"
        "    client = await load().config.new_client_from_config_dict(config)\n"
        "    print(type(client).__name__, client.configuration.host)\n"
        "    await client.close()\n"
        "asyncio.run(main())\n"
    )
    assert printed.splitlines() == ["ApiClient http://127.0.0.1:9"]


def test_passwords_of_http_basic_are_written() -> None:
    printed = run("print(load().configuration(username='u', password='p').get_basic_auth_token())")
    assert printed.strip() == "Basic dTpw"


def test_a_package_that_is_imported_as_a_whole_is_used_as_it_is() -> None:
    printed = run(
        "import kubernetes_asyncio.client as client\n"
        "package = load()\n"
        "print(package.configuration is client.Configuration, package.config.__name__)\n"
        "print(package.rest_client is client.rest.RESTClientObject)\n"
    )
    assert printed.splitlines() == ["True kubernetes_asyncio.config", "True"]


def package(folder: Path, client: str, config: str, **more: str) -> Path:
    """Write another version of the package: the sources of its packages and modules."""
    root = folder / "kubernetes_asyncio"
    rest = "class RESTClientObject: pass"
    files = {"rest": rest, **more}
    for name in ("client", "config"):
        (root / name).mkdir(parents=True)
    (root / "__init__.py").write_text("from kubernetes_asyncio import client, config")
    (root / "client/__init__.py").write_text(client)
    (root / "config/__init__.py").write_text(config)
    for name, text in files.items():
        (root / f"client/{name}.py").write_text(text)
    return folder


def test_a_version_whose_parts_are_elsewhere_is_imported_as_a_whole(tmp_path: Path) -> None:
    client = "from kubernetes_asyncio.client import rest\nclass Configuration: pass"
    printed = run(
        "package = load()\n"
        "import kubernetes_asyncio\n"
        "print(package.configuration is kubernetes_asyncio.client.Configuration)\n",
        package(tmp_path, client, "from kubernetes_asyncio.client import Configuration"),
    )
    log, same = printed.splitlines()
    assert "kubernetes_asyncio is imported as a whole" in log
    assert "client.configuration" in log
    assert same == "True"


def test_a_version_whose_config_wants_more_is_imported_as_a_whole(tmp_path: Path) -> None:
    client = (
        "from kubernetes_asyncio.client import rest\n"
        "from kubernetes_asyncio.client.configuration import Configuration\n"
        "class V1Pod: pass"
    )
    printed = run(
        "package = load()\n"
        "import kubernetes_asyncio\n"
        "print(package.config.V1Pod is kubernetes_asyncio.client.V1Pod)\n",
        package(
            *(tmp_path, client, "from kubernetes_asyncio.client import Configuration, V1Pod"),
            configuration="class Configuration: pass",
        ),
    )
    log, same = printed.splitlines()
    assert "kubernetes_asyncio is imported as a whole" in log
    assert "V1Pod" in log
    assert same == "True"


def test_another_thread_can_import_urllib3_meanwhile(tmp_path: Path) -> None:
    """The exporter of traces starts in a thread of its own, and imports it by requests."""
    configuration = (
        "import threading\n"
        "def other():\n"
        "    import requests, urllib3\n"
        "    from urllib3 import PoolManager\n"
        "    print(requests.Session.__name__, PoolManager is urllib3.PoolManager)\n"
        "thread = threading.Thread(target=other)\n"
        "thread.start()\n"
        "thread.join()\n"
        "class Configuration: pass\n"
    )
    printed = run(
        "load()\n"
        "import requests, urllib3.util\n"
        "print(urllib3.PoolManager is requests.adapters.PoolManager)\n",
        package(tmp_path, "", "", configuration=configuration),
    )
    assert printed.split() == ["Session", "True", "True"]


def test_without_the_package_the_error_is_pythons() -> None:
    printed = run(
        "class Nowhere:\n"
        "    def find_spec(name, *_):\n"
        "        if name.startswith('kubernetes_asyncio'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Nowhere)\n"
        "try:\n"
        "    load()\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    assert printed == "No module named 'kubernetes_asyncio'\n"
