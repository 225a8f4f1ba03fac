"""``python -m tests.cluster [COMMAND…]``: run a command in a new cluster, by default a shell.

The cluster is empty. It ends with the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.cluster.cluster import Cluster
from tests.cluster.programs import Unavailable
from tests.process import ROOT

NEXT: Final = """\
The cluster is empty. This installs the product:
  kubectl apply -k manifests/overlays/services
`exit` ends the cluster."""


def main(command: list[str]) -> int:
    """Run the command in the cluster's network; return its exit status, or 2 without a cluster."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        try:
            cluster = Cluster(Path(folder))
        except Unavailable as error:
            print(error, file=sys.stderr)
            return 2
        try:
            cluster.start()
            shell = [os.environ.get("SHELL", "bash")]
            print(f"logs: {folder}/log", file=sys.stderr)
            if not command:
                print(NEXT, file=sys.stderr)
            # An editor or a pager in the shell needs the kind of the terminal.
            environment = {"TERM": os.environ.get("TERM", "dumb"), **cluster.environment}
            return subprocess.call(command or shell, cwd=ROOT, env=environment)
        finally:
            cluster.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
