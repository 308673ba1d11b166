"""Definitions and uses of the components and values that a canvas names, and new ids for components."""

from __future__ import annotations

import re
from typing import NamedTuple

from ragflow_lg.dsl_compiler.json_spans import TextEdit
from ragflow_lg.integrations.language_server.canvas_text import CanvasText, Mention, Place

_NEW_ID = re.compile(r"[A-Za-z0-9_:]{1,200}")
ENTRY_ID = "begin"
ITEM_COMPONENT = "iterationitem"


class Rename(NamedTuple):
    """The edits that give a component another id, or the reason why there are none."""

    edits: tuple[TextEdit, ...] = ()
    problem: str = ""


def find_definition(canvas: CanvasText, offset: int) -> Place | None:
    """Return where the thing at a cursor is defined.

    That is the key of a component; for a value, its declaration in ``outputs`` or ``inputs`` or among the variables
    and globals if the text has one, and otherwise the component.
    """
    mention = canvas.mention_at(offset)
    if mention is None:
        return None
    entry = canvas.components.get(mention.component)
    reference = mention.reference
    if reference is not None and reference.kind == "global":
        return _find_global(canvas, reference.key)
    if reference is not None and reference.kind == "alias":
        return _find_item(canvas, offset)
    if entry is None:
        return None
    if reference is None or mention.id_place is None or mention.id_place.contains(offset):
        return entry.key
    obj = canvas.child(entry.span, "obj")
    params = canvas.child(obj if obj is not None else entry.span, "params")
    for key in ("outputs", "inputs"):
        declared = canvas.child(canvas.child(params, key), reference.key)
        if declared is not None:
            return canvas.key_place(declared)
    return entry.key


def _find_item(canvas: CanvasText, offset: int) -> Place | None:
    """Return the start of the round to which a short name such as ``item`` belongs."""
    reader = canvas.component_at(canvas.path_at(offset))
    siblings = (entry for entry in canvas.components.values() if reader is not None and entry.parent == reader.parent)
    return next((entry.key for entry in siblings if entry.parent and entry.name.lower() == ITEM_COMPONENT), None)


def _find_global(canvas: CanvasText, key: str) -> Place | None:
    name = key.partition(".")[2]
    variables = canvas.child(canvas.document, "variables")
    declared = canvas.child(variables, name)
    if variables is not None and declared is None:
        declared = next((s for s in variables.children if canvas.string(canvas.child(s, "name")) == name), None)
    if declared is None:
        declared = canvas.child(canvas.child(canvas.document, "globals"), key)
    return None if declared is None else canvas.key_place(declared)


def find_uses(canvas: CanvasText, offset: int, *, with_definition: bool) -> list[Place]:
    """Return all places that name the thing at a cursor: a component, or one of its outputs, or a global."""
    target = canvas.mention_at(offset)
    if target is None:
        return []
    is_component = target.id_place is not None and target.id_place.contains(offset)
    return [
        mention.id_place if is_component and mention.id_place is not None else mention.place
        for mention in canvas.mentions
        if (with_definition or not mention.is_key) and _is_same(target, mention, is_component=is_component)
    ]


def _is_same(target: Mention, mention: Mention, *, is_component: bool) -> bool:
    if is_component:
        return mention.component == target.component
    one, other = target.reference, mention.reference
    return (
        one is not None and other is not None and (one.kind, one.node, one.key) == (other.kind, other.node, other.key)
    )


def find_renamable(canvas: CanvasText, offset: int) -> Mention | None:
    """Return the component at a cursor if it can get another id."""
    mention = canvas.mention_at(offset)
    if mention is None or mention.id_place is None or not mention.id_place.contains(offset):
        return None
    return mention if mention.component in canvas.components else None


def plan_rename(canvas: CanvasText, offset: int, new_id: str) -> Rename:
    """Return the edits that give the component at a cursor another id, everywhere in the text.

    They change the key, the edges in components and in the graph of the editor, and references in all texts. Ids of
    the editor's edges stay, because nothing refers to them.
    """
    mention = find_renamable(canvas, offset)
    if mention is None:
        return Rename(problem="There is no component here.")
    if mention.component == ENTRY_ID:
        return Rename(problem=f"RAGFlow starts a turn at the component {ENTRY_ID!r}, so that it needs this id.")
    if not _NEW_ID.fullmatch(new_id):
        return Rename(problem="An id has up to 200 letters without accents, digits, underscores and colons.")
    if new_id != mention.component and (new_id in canvas.components or new_id in canvas.titles):
        return Rename(problem=f"There is a node {new_id!r} already.")
    places = [each.id_place for each in canvas.mentions if each.component == mention.component]
    return Rename(tuple(dict.fromkeys(TextEdit(*place, new_id) for place in places if place is not None)))
