from __future__ import annotations

import re

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler.langgraph_app.node_colours import colour_of


def test_every_component_has_a_colour() -> None:
    colours = {spec.kind: colour_of(spec.kind) for spec in load_catalog()}
    assert len(colours) > 4
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours.values())


def test_what_has_no_kind_of_its_own_is_plain() -> None:
    assert colour_of("no such kind") not in {colour_of(kind) for kind in ("entry", "message", "model", "route")}
