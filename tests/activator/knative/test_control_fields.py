from __future__ import annotations

from activator.knative import control_fields


def test_names_are_in_lower_case_and_protected() -> None:
    for name in control_fields.OWN:
        assert name == name.lower()
        assert name.startswith(control_fields.PREFIXES)


def test_lines_to_pods_name_the_same_fields() -> None:
    for line, name in (
        (control_fields.ORIGINAL_HOST_START, control_fields.ORIGINAL_HOST),
        (control_fields.PROXY_LINE, control_fields.PROXY_REQUEST),
        (control_fields.NETWORK_HASH_START, control_fields.NETWORK_HASH),
    ):
        assert line.partition(b": ")[0].lower() == name
