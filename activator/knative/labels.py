"""Labels, annotations and API groups of Knative's objects, and the kind of object that they mark.

Pure. Sources: Knative pkg/apis/serving/register.go, pkg/networking/constants.go and
knative.dev/networking's pkg/apis/networking/register.go.
"""

from __future__ import annotations

from typing import Final

from activator.objects.fields import DEFAULT_NAMESPACE, Field
from throttler.model import RevisionID

#: The API group of Revisions, and the path under which an API server lists them.
SERVING_GROUP: Final = "serving.knative.dev"
REVISIONS_PATH: Final = f"/apis/{SERVING_GROUP}/v1/revisions"

#: On Endpoints and EndpointSlices.
SERVICE_TYPE_LABEL: Final = "networking.internal.knative.dev/serviceType"
REVISION_LABEL: Final = "serving.knative.dev/revision"
REVISION_UID_LABEL: Final = "serving.knative.dev/revisionUID"

#: On Revisions.
SERVICE_LABEL: Final = "serving.knative.dev/service"
CONFIGURATION_LABEL: Final = "serving.knative.dev/configuration"
FULL_DUPLEX_ANNOTATION: Final = "features.knative.dev/http-full-duplex"

#: On ConfigMaps that contain certificates to trust.
TRUST_BUNDLE_LABEL: Final = "networking.knative.dev/trust-bundle"


def is_private(obj: Field) -> bool:
    """Return whether an object lists the pods of a revision."""
    labels = obj["metadata"]["labels"].mapping()
    return labels.get(SERVICE_TYPE_LABEL) == "Private" and REVISION_UID_LABEL in labels


def is_public(obj: Field) -> bool:
    """Return whether an object lists the addresses of a revision's public Service."""
    return obj["metadata"]["labels"].mapping().get(SERVICE_TYPE_LABEL) == "Public"


def revision_of(obj: Field) -> RevisionID:
    """Return the revision that the label of an object names.

    Raises:
        ManifestError: the label is missing, or its value is no name.
    """
    metadata = obj["metadata"]
    namespace = metadata["namespace"]
    return RevisionID(
        DEFAULT_NAMESPACE if namespace.value is None else namespace.name(),
        metadata["labels"].at(REVISION_LABEL).name(),
    )
