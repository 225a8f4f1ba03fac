from __future__ import annotations

from activator.lab.control_plane.resources import (
    BUILT_IN,
    DEPLOYMENTS,
    NODES,
    PODS,
    SERVICES,
    ApiKinds,
    ApiPath,
)
from tests.rows import naming


def test_path_leads_to_its_place_and_back():
    known = ApiKinds(BUILT_IN)
    for place in (
        ApiPath(SERVICES),
        ApiPath(SERVICES, "shop"),
        ApiPath(SERVICES, "shop", "web"),
        ApiPath(DEPLOYMENTS, "shop", "w", "scale"),
        ApiPath(NODES, "", "n"),
    ):
        with naming(place):
            assert known.find(place.resource.path(*place[1:])) == place


def test_path_that_leads_nowhere():
    known = ApiKinds(BUILT_IN)
    for path in ("/", "/api", "/apis/apps", "/api/v1/namespaces/a/nodes/n", "/api/v1/pods/a/b/c"):
        with naming(path):
            assert known.find(path) is None


def test_kind_is_found_by_the_fields_of_an_object():
    known = ApiKinds(BUILT_IN)
    assert known.of_kind("v1", "Pod") == PODS
    assert known.of_kind("v2", "Pod") is None
