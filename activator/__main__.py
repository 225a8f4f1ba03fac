"""``python -m activator``: the same as the console script ``activator``."""

from __future__ import annotations

import sys

from activator.cli import main

if __name__ == "__main__":
    sys.exit(main())
