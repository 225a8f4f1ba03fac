"""The dashboard's module of reasons has the rows of the table."""

from __future__ import annotations

import json
import re

from activator.admin.reason_script import script
from throttler.reason import AT_ZERO, DELETED, DELETED_SERVICE, TABLE, Reason


def test_the_script_has_each_row_and_the_special_advice():
    texts = dict(re.findall(r"^export const (\w+) = (.*?);$", script(), re.MULTILINE | re.DOTALL))
    assert json.loads(texts["AT_ZERO"]) == AT_ZERO
    assert json.loads(texts["DELETED"]) == {"revision": DELETED, "service": DELETED_SERVICE}
    rows = json.loads(texts["REASONS"])
    assert {word: (row["meaning"], row["inFolder"]) for word, row in rows.items()} == {
        row.reason.value: (
            {"revision": row.meaning, "service": row.service_meaning or row.meaning},
            {"revision": row.in_folder, "service": row.service_in_folder or row.in_folder},
        )
        for row in TABLE
    }
    for row in TABLE:
        steps = {"advice": row.advice, "commands": list(row.commands)}
        assert rows[row.reason.value]["revision"] == steps


def test_the_steps_for_a_service_have_no_word_of_knative():
    rows = json.loads(re.findall(r"REASONS = (.*?);$", script(), re.MULTILINE | re.DOTALL)[0])
    assert "knative" in json.dumps([row["revision"] for row in rows.values()])
    rows.pop(Reason.AUTOSCALER_UNREACHABLE.value)  # of a Revision alone
    text = json.dumps([row["service"] for row in rows.values()])
    assert not re.search("knative|queue-proxy|podautoscaler|user-container", text)
    waits = rows[Reason.DRAINING.value]
    assert waits["service"] == waits["revision"]  # fits both
