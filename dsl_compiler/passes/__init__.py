"""The compiler's passes in order. Each is one function; passes that answer the same question share a file.

The first group brings the document into its current form. The second chooses which of RAGFlow's behaviours apply, and
binds the document to the catalog. The third determines the flow, and the last performs checks. If the first group
reports errors, the other groups do not run, since their errors would only be consequences. Passes import the rooms
below the compiler except the catalog, and never LangGraph.
"""

from __future__ import annotations

from ragflow_lg.dsl_compiler.draft import Pass
from ragflow_lg.dsl_compiler.passes.bind_canvases import bind_canvases
from ragflow_lg.dsl_compiler.passes.bind_components import bind_components, bind_params
from ragflow_lg.dsl_compiler.passes.bind_globals import bind_globals
from ragflow_lg.dsl_compiler.passes.bind_tools import bind_tools
from ragflow_lg.dsl_compiler.passes.check_differences import check_differences, choose_behaviours
from ragflow_lg.dsl_compiler.passes.check_nodes import check_parallel, check_reachable, check_servers, check_titles
from ragflow_lg.dsl_compiler.passes.check_references import check_references
from ragflow_lg.dsl_compiler.passes.collect_components import classify_document, collect_components
from ragflow_lg.dsl_compiler.passes.find_joins import find_joins
from ragflow_lg.dsl_compiler.passes.group_regions import group_regions
from ragflow_lg.dsl_compiler.passes.limit_size import limit_size
from ragflow_lg.dsl_compiler.passes.migrate_names import migrate_names
from ragflow_lg.dsl_compiler.passes.order_nodes import find_cycles, find_entry, rank_nodes
from ragflow_lg.dsl_compiler.passes.plan_streaming import plan_streaming
from ragflow_lg.dsl_compiler.passes.rewrite_shapes import rewrite_shapes
from ragflow_lg.dsl_compiler.passes.route_edges import route_edges
from ragflow_lg.dsl_compiler.passes.upgrade_document import upgrade_document

__all__ = ["PASSES"]

PASSES: tuple[tuple[Pass, ...], ...] = (
    (upgrade_document, classify_document, collect_components, limit_size, migrate_names, rewrite_shapes),
    (choose_behaviours, bind_components, bind_params, bind_tools, bind_canvases, bind_globals),
    (route_edges, find_entry, rank_nodes, group_regions, find_cycles, find_joins, plan_streaming),
    (check_servers, check_parallel, check_reachable, check_references, check_titles, check_differences),
)
