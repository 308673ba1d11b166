"""Rename components that RAGFlow has renamed, and the ids and references that contain an old name.

Source: RAGFlow's ``agent/dsl_migration.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from ragflow_lg.base.lenient_values import map_texts
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.dsl_compiler.placeholder import RENAMED, current_name

# Bounded counts, as in `ragflow_lg.dsl.variable_references`, keep malicious input full of braces at linear time.
_REFERENCE = re.compile(r"((?:\{\s{0,8}){1,8})([A-Za-z0-9:_-]+)(@[A-Za-z0-9_.-]+)((?:\s{0,8}\}){1,8})")


def migrate_names(draft: Draft, reporter: Reporter) -> Draft:
    """Rename components; an id ``<OldName>:<rest>`` becomes ``<NewName>:<rest>`` everywhere."""
    ids = {id_: new for id_ in draft.components if (new := _rename_id(id_)) != id_ and new not in draft.components}
    if not ids and not any(current_name(c.name, c.params) != c.name for c in draft.components.values()):
        return draft
    components: dict[str, RawComponent] = {}
    for component in draft.components.values():
        name = current_name(component.name, component.params)
        if name != component.name:
            message = f"{component.name} was renamed to {name}, its current name."
            reporter.report("document-rewritten", "info", component.place(), message)
        new_id = ids.get(component.id, component.id)
        components[new_id] = replace(
            component,
            id=new_id,
            name=name,
            params=map_texts(component.params, lambda text: _rename_in(text, ids)) if ids else component.params,
            downstream=tuple(ids.get(target, target) for target in component.downstream),
            parent=ids.get(component.parent, component.parent) if component.parent else None,
        )
    return replace(draft, components=components)


def _rename_id(id_: str) -> str:
    prefix, colon, rest = id_.partition(":")
    return RENAMED.get(prefix, prefix) + colon + rest if colon else id_


def _rename_in(text: str, ids: Mapping[str, str]) -> str:
    """Rename ids in a text: the whole text, and references."""
    if text in ids:
        return ids[text]
    bare, at, rest = text.partition("@")
    if at and bare in ids:
        return ids[bare] + at + rest
    return _REFERENCE.sub(lambda m: m[1] + ids.get(m[2], m[2]) + m[3] + m[4], text)
