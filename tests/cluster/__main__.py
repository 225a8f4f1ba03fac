"""``python -m tests.cluster [COMMAND…]``: run a command in a new cluster, by default a shell."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.programs import Unavailable
from tests.process import ROOT


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
            return subprocess.call(command or shell, cwd=ROOT, env=cluster.environment)
        finally:
            cluster.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
