"""What a list shows of an agent's canvas: how it is used, and a small drawing without texts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ragflow_lg.base.lenient_values import as_list, as_map, as_text, as_texts

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import AgentRow

Kind = Literal["chat", "form", "task", "webhook", "schedule"]
MAX_NODES = 60
_STEP = (300, 120)
_IMAGES = tuple(f"data:image/{kind};base64," for kind in ("png", "jpeg", "gif", "webp"))
_MAX_IMAGE = 300_000


class CanvasSketch(NamedTuple):
    """A drawing: where nodes are, and between which of them, by number, edges lead."""

    nodes: list[tuple[int, int]]
    edges: list[tuple[int, int]]


def find_kind(canvas: Mapping[str, Any], *, is_scheduled: bool) -> Kind:
    """Return how an agent is used: by what its Begin says, and whether it has schedules."""
    params = as_map(as_map(as_map(as_map(canvas.get("components")).get("begin")).get("obj")).get("params"))
    mode = as_text(params.get("mode")).casefold()
    if mode == "webhook":
        return "webhook"
    if is_scheduled:
        return "schedule"
    if mode == "task":
        return "task"
    return "form" if as_map(params.get("inputs")) else "chat"


def find_picture(agent: AgentRow) -> str:
    """Return the agent's picture, if it is a raster image within the row: others could load or run something."""
    avatar = agent.avatar or ""
    return avatar if avatar.startswith(_IMAGES) and len(avatar) <= _MAX_IMAGE else ""


def sketch_canvas(canvas: Mapping[str, Any]) -> CanvasSketch:
    """Return the drawing of a stored canvas: positions of the editor, or else columns in the order of a run."""
    components = {id_: as_map(component) for id_, component in as_map(canvas.get("components")).items()}
    outer = [id_ for id_, component in components.items() if not as_text(component.get("parent_id"))][:MAX_NODES]
    targets = {id_: [to for to in as_texts(components[id_].get("downstream")) if to in outer] for id_ in outer}
    places = _read_places(canvas, outer) or _arrange(outer, targets)
    numbers = {id_: number for number, id_ in enumerate(outer)}
    edges = [(numbers[id_], numbers[to]) for id_ in outer for to in dict.fromkeys(targets[id_])]
    return CanvasSketch([places[id_] for id_ in outer], edges)


def _read_places(canvas: Mapping[str, Any], ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the positions of the editor, or none if it does not show all nodes, or all at one place."""
    places: dict[str, tuple[int, int]] = {}
    for node in map(as_map, as_list(as_map(canvas.get("graph")).get("nodes"))):
        place = as_map(node.get("position"))
        x, y = place.get("x"), place.get("y")
        if isinstance(x, int | float) and isinstance(y, int | float) and max(abs(x), abs(y)) < 1e6:
            places[as_text(node.get("id"))] = (round(x), round(y))
    shown = [places.get(id_) for id_ in ids]
    return places if None not in shown and (len(set(shown)) > 1 or len(ids) == 1) else {}


def _arrange(ids: Sequence[str], targets: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, int]]:
    columns: dict[str, int] = {}
    for first in ("begin", *ids):
        waiting = deque([(first, 0)]) if first in targets and first not in columns else deque[tuple[str, int]]()
        while waiting:
            id_, column = waiting.popleft()
            if id_ not in columns:
                columns[id_] = column
                waiting.extend((to, column + 1) for to in targets[id_])
    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for id_, column in columns.items():
        places[id_] = (column * _STEP[0], rows.get(column, 0) * _STEP[1])
        rows[column] = rows.get(column, 0) + 1
    return places
