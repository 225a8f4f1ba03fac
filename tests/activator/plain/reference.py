"""The table of annotations in docs/reference.md; ``python -m tests.activator.plain.reference``."""

from __future__ import annotations

from activator.plain.annotations import ENABLED, PREFIX, TABLE


def markdown() -> str:
    """Return the table of all annotations, in Markdown."""
    rows = [
        f"| `{PREFIX}{name}` | {row.values} | {row.default} | {row.meaning} |"
        for name, row in TABLE.items()
    ]
    first = f"| `{ENABLED}` | `true`, `false` | `false` | Opts the Service in. |"
    return "\n".join(
        ["| annotation | values | default | meaning |", "|---|---|---|---|", first, *rows]
    )


if __name__ == "__main__":
    print(markdown())
