"""What the analyses know about a canvas."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler.analysis.activity import Activity
from ragflow_lg.dsl_compiler.draft import Children, Draft, group_by_region
from ragflow_lg.dsl_compiler.reference_types import ReferenceTypes, assignment_targets


class AnalysedCanvas(Struct, frozen=True, dict=True):
    """A draft after all passes, without errors."""

    draft: Draft

    @cached_property
    def activities(self) -> dict[NodeId | None, Activity]:
        """Which nodes run together: for the canvas, under None, and for each region's body, by region id."""
        return {scope: Activity(self.draft, flow) for scope, flow in self.draft.flows.items()}

    @cached_property
    def children(self) -> Children:
        """The nodes directly inside each region, and the canvas's own nodes under None."""
        return group_by_region(self.draft)

    @cached_property
    def assigned(self) -> frozenset[str]:
        """The targets of assignments: the names of globals, and ``node@output``."""
        return frozenset(assignment_targets(self.draft))

    @cached_property
    def types(self) -> ReferenceTypes:
        """The types of the values."""
        return ReferenceTypes(self.draft)
