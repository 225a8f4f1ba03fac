"""The dashboard's module of reasons has the rows of the table."""

from __future__ import annotations

import json
import re

from activator.admin.reason_script import script
from throttler.reason import AT_ZERO, DELETED, TABLE


def test_the_script_has_each_row_and_the_special_advice():
    texts = dict(re.findall(r"^export const (\w+) = (.*?);$", script(), re.MULTILINE | re.DOTALL))
    assert [json.loads(texts[name]) for name in ("AT_ZERO", "DELETED")] == [AT_ZERO, DELETED]
    assert json.loads(texts["REASONS"]) == {
        row.reason.value: {
            "meaning": row.meaning,
            "advice": row.advice,
            "commands": list(row.commands),
            "inFolder": row.in_folder,
        }
        for row in TABLE
    }
