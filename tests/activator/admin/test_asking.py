"""Questions to an admin side, from what is asked to what is shown."""

from __future__ import annotations

import io
import json

import pytest
import respx

from activator.admin.asking import Explain, Status, run
from activator.admin.client import NotKnown
from activator.admin.reading import UnexpectedAnswer

URL = "http://127.0.0.1:18080"
REVISIONS = URL + "/api/v1/revisions"
HELLO = {
    "namespace": "default",
    "name": "hello-00001",
    "containerConcurrency": 0,
    "capacity": 0,
    "inFlight": 0,
    "queued": 0,
    "pods": [],
}
UNKNOWN = {"status_code": 404, "headers": {"Content-Type": "application/problem+json"}}


def ask(question, as_json=False):
    out = io.StringIO()
    warnings = run(URL, question, as_json, again=False, out=out)
    return out.getvalue(), warnings


@respx.mock
@pytest.mark.parametrize(
    ("namespace", "path"), [(None, REVISIONS), ("a b&", f"{REVISIONS}?namespace=a%20b%26")]
)
def test_status_asks_for_all_or_for_one_namespace(namespace, path):
    answer = {"revisions": [HELLO], "activator": {"notReadyReason": "draining"}}
    route = respx.get(path).respond(json=answer)
    text, warnings = ask(Status(namespace))
    assert "default/hello-00001" in text
    assert warnings == ["not ready: draining"]
    assert str(route.calls[0].request.url) == path


@respx.mock
def test_explain_asks_for_one_and_prints_the_page_or_the_raw_answer():
    raw = json.dumps(HELLO, indent=3)
    respx.get(f"{REVISIONS}/a%2Fb/hello").respond(text=raw)
    assert ask(Explain("a/b", "hello"))[0].startswith("default/hello-00001: no request waits")
    assert ask(Explain("a/b", "hello"), as_json=True) == (raw + "\n", [])


@respx.mock
@pytest.mark.parametrize(
    ("revisions", "meant"),
    [([HELLO], " Did you mean default/hello-00001?"), ([], "")],
)
def test_a_revision_that_is_not_known(revisions, meant):
    respx.get(f"{REVISIONS}/default/hello").respond(**UNKNOWN)
    respx.get(REVISIONS).respond(json={"revisions": revisions})
    with pytest.raises(NotKnown) as caught:
        ask(Explain("default", "hello"))
    first = f"the activator knows no revision default/hello.{meant}"
    assert str(caught.value).splitlines()[0] == first


@respx.mock
@pytest.mark.parametrize("text", ["<html>", "[]", "{}", '{"queued": "many"}'])
@pytest.mark.parametrize("question", [Status(None), Explain("default", "hello")])
def test_what_is_no_activators_answer_is_named(question, text):
    respx.get(URL + question.path).respond(text=text)
    with pytest.raises(UnexpectedAnswer, match="not an activator's admin side"):
        ask(question)


@respx.mock
def test_who_knows_no_revisions_at_all_is_no_activator():
    respx.get(REVISIONS).respond(**UNKNOWN)
    with pytest.raises(UnexpectedAnswer, match="not an activator's admin side"):
        ask(Status(None))
