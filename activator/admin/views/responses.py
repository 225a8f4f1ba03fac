"""Define the responses that consist of other views: the list of all revisions, and errors."""

from __future__ import annotations

from typing import Annotated, TypedDict

from activator.admin.views.activators import ActivatorView
from activator.admin.views.fields import says
from activator.admin.views.revisions import RevisionView


class RevisionsView(TypedDict):
    """All revisions."""

    revisions: Annotated[list[RevisionView], says("sorted by namespace and name")]
    activator: Annotated[ActivatorView, says("the activator that responds")]


class ProblemView(TypedDict):
    """An error (RFC 9457)."""

    type: Annotated[str, says("`about:blank`: the status says it all")]
    title: Annotated[str, says("the phrase of the status")]
    status: Annotated[int, says("the HTTP status")]
    detail: Annotated[str, says("the error, and what to do, for people")]
