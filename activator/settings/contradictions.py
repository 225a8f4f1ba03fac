"""Finds settings that contradict each other, for which the activator refuses to start.

The module knows values by the names of their settings, and nothing else of ``config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def contradictions(known: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each contradiction.

    Arguments:
        known: the value of each setting, by its name.
    """
    return _shared_ports(known) + _tls(known) + _held(known) + _unfinished(known)


def _held(known: Mapping[str, Any]) -> list[str]:
    return [
        f"hold_bytes ({known['hold_bytes']} bytes) is larger than {budget} ({known[budget]} "
        f"bytes): one request alone would not fit; lower the one or raise the other."
        for budget in ("hold_bytes_per_revision", "hold_bytes_total")
        if known["hold_bytes"] > known[budget]
    ]


def _unfinished(known: Mapping[str, Any]) -> list[str]:
    one, all_of_them = known["max_header_bytes"], known["unfinished_header_bytes"]
    if one <= all_of_them - all_of_them // 4:
        return []
    return [
        f"max_header_bytes ({one} bytes) is larger than three quarters of unfinished_header_bytes "
        f"({all_of_them} bytes): the largest heads would not fit; lower the one or raise the other."
    ]


def _tls(known: Mapping[str, Any]) -> list[str]:
    problems = [
        f"{end}tls_min_version (1.3) is above {end}tls_max_version (1.2): no version is left."
        for end in ("", "metrics_")
        if known[f"{end}tls_min_version"] > known[f"{end}tls_max_version"] != ""
    ]
    pair = {name: known[name] for name in ("metrics_tls_cert", "metrics_tls_key")}
    if any(pair.values()) and not all(pair.values()):
        problems.append(" and ".join(pair) + " belong together: give both or neither.")
    auth, ca = known["metrics_tls_client_auth"], known["metrics_tls_client_ca_file"]
    if (auth != "none" or ca) and not any(pair.values()):
        problems.append(
            "metrics_tls_client_auth and metrics_tls_client_ca_file need TLS on the metrics port: "
            "give metrics_tls_cert and metrics_tls_key, too."
        )
    elif auth != "none" and not ca:
        problems.append(
            f"metrics_tls_client_auth is {auth}, but metrics_tls_client_ca_file is empty: give the "
            f"certificate authorities for clients."
        )
    elif ca and auth == "none":
        problems.append(
            "metrics_tls_client_ca_file is given, and metrics_tls_client_auth is none: set it to "
            "optional or require, or leave out the file."
        )
    return problems


def _shared_ports(known: Mapping[str, Any]) -> list[str]:
    # https_port is left out: it is open only with TLS, and this module does not know that.
    addresses = {
        "http_port": known["bind"],
        "h2c_port": known["bind"],
        "admit_port": known["bind"],
        "metrics_port": known["metrics_bind"],
        "profiling_port": known["bind"],
        "admin_port": known["admin_bind"],
    }
    names = list(addresses)
    return [
        f"{one} and {other} are both {known[one]} on {addresses[one]}: give each its own port, "
        f"or 0 to pick a free one."
        for position, one in enumerate(names)
        for other in names[position + 1 :]
        if known[one] == known[other] not in (0, None)
        and _overlap(addresses[one], addresses[other])
    ]


def _overlap(one: str, other: str) -> bool:
    return one == other or not {"0.0.0.0", "::"}.isdisjoint({one, other})
