"""Label selectors: which labels each selects, and which texts are errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.scale.external_metrics.label_selector import matches, parse

HELLO = {"service": "hello", "a.b/c": "x"}


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("  ", True),
        ("service=hello", True),
        ("service==hello", True),
        (" service = hello ", True),
        ("service=other", False),
        ("service=", False),
        ("none=", False),
        ("service!=other", True),
        ("service!=hello", False),
        ("none!=hello", True),
        ("service in (hello)", True),
        ("service in ( other , hello )", True),
        ("service in (other)", False),
        ("service notin (other,more)", True),
        ("service notin (other,hello)", False),
        ("none notin (hello)", True),
        ("service", True),
        ("none", False),
        ("!none", True),
        ("! service", False),
        ("service=hello,a.b/c=x", True),
        ("service=hello, a.b/c in (x,y), !none", True),
        ("service=hello,a.b/c=y", False),
        ("in=hello", False),
        ("service,in", False),
    ],
)
def test_a_selector(text: str, holds: bool) -> None:
    assert matches(parse(text), HELLO) is holds


@pytest.mark.parametrize(
    "text",
    [
        *(",", "=x", "!", "service=hello,", "service=hello a=b", "service in", "service in (a"),
        *("service in hello", "service=a b", "(a)", "service>5", "é", "service=hello,,a=b"),
    ],
)
def test_a_text_that_is_no_selector(text: str) -> None:
    with pytest.raises(ValueError, match=r"no requirement|expected a comma"):
        parse(text)


@given(st.text(max_size=60))
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    try:
        found = parse(text)
    except ValueError:
        return
    matches(found, HELLO)
