from __future__ import annotations

from activator.knative import words


def test_names_are_in_lower_case_and_protected() -> None:
    for name in words.OWN:
        assert name == name.lower()
        assert name.startswith(words.PREFIXES)


def test_lines_to_pods_name_the_same_fields() -> None:
    for line, name in (
        (words.ORIGINAL_HOST_START, words.ORIGINAL_HOST),
        (words.PROXY_LINE, words.PROXY_REQUEST),
        (words.NETWORK_HASH_START, words.NETWORK_HASH),
    ):
        assert line.partition(b": ")[0].lower() == name
