from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.runs.canvas_changes import Change, changed_channels, read_changes
from tests.fakes.canvas import canvas, node, plan_of, text
from tests.harness.rows import each_row, read_rows

FIELDS = {"name": {"name": "Name", "type": "line", "optional": True}}
FORM = node("UserFillUp", {"inputs": FIELDS, "enable_tips": False}, ["say"])
VARIABLES = [{"name": "tone", "value": "plain"}, {"name": "map", "type": "object", "value": {"a": 1}}]
PLAN = plan_of(canvas({"ask:1": FORM, "say": text([], "{ask:1@name}")}, variables=VARIABLES))


def read(node_id: str, changes: dict[str, Any], **values: Any) -> tuple[Change, ...]:
    return read_changes(PLAN, NodeId(node_id), changes, values)


def test_changes_name_globals_and_outputs() -> None:
    assert read("say", {"env.tone": 1, "ask:1@name.x": 2}) == (
        Change("", "env.tone", (), 1),
        Change("ask:1", "name", ("x",), 2),
    )
    assert read("say", {"env.map.a": 2}) == (Change("", "env.map", ("a",), 2),)
    assert read("say", {"env.extra": 2}, globals={"env.extra": 1}) == (Change("", "env.extra", (), 2),)


def test_changes_of_the_entry_node_change_the_request() -> None:
    changes = read("begin", {"sys.query": "q", "sys.user_id": "u", "sys.files": [], "env.tone": "t"})
    assert [change.request for change in changes] == ["query", "user_id", "files", ""]
    request: dict[str, Any] = {"query": "q", "user_id": "u", "files": []}
    assert changed_channels({}, changes, is_root=True) == {**request, "globals": {"env.tone": "t"}}


@each_row(("start", "name", "reason"), read_rows("refused_changes"))
def test_a_change_without_effect_is_rejected(start: str, name: str, reason: str) -> None:
    with pytest.raises(CheckpointError) as error:
        read(start, {name: 1})
    assert reason in str(error.value)


@each_row(
    "name",
    ["x" * 900, "env." + "y" * 900, "N" * 900 + "@n", "ask:1@" + "y" * 900, "env." + "a." * 500_000 + "b", "x" * 10**6],
)
def test_a_long_name_is_refused_at_once_and_not_repeated(name: str) -> None:
    with pytest.raises(CheckpointError) as error:
        read("say", {name: 1})
    assert len(str(error.value)) < 400


def test_a_path_into_a_text_is_rejected() -> None:
    with pytest.raises(CheckpointError, match="not a map"):
        changed_channels({"globals": {"env.tone": "text"}}, read("say", {"env.tone.x": 1}), is_root=True)
