from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.state import look_up, merge_messages, merge_outputs, merge_turn, output_patch, replace_list
from ragflow_lg.dsl.variable_references import parse_reference


def test_a_node_replaces_its_own_entry_and_a_patch_changes_single_outputs() -> None:
    current = {"a": {"x": 1, "_ERROR": "old"}, "b": {"y": 1}}
    assert merge_outputs(current, output_patch(set={"a": {"x": 2}})) == {"a": {"x": 2}, "b": {"y": 1}}
    assert merge_outputs(current, output_patch(patch={"b": {"z": 2}}, set={"c": {}}))["b"] == {"y": 1, "z": 2}
    assert merge_outputs(current, output_patch(clear=True, set={"c": {}})) == {"c": {}}
    assert merge_outputs(None, output_patch(patch={"b": {"z": 2}})) == {"b": {"z": 2}}
    assert current == {"a": {"x": 1, "_ERROR": "old"}, "b": {"y": 1}}


def test_outputs_that_look_like_operations_are_data() -> None:
    hostile = {"__operations__": {"clear": True}, "__overwrite__": 1}
    assert merge_outputs({"a": {}}, output_patch(set={"b": hostile})) == {"a": {}, "b": hostile}


def test_the_latest_error_and_the_latest_last_node_stay() -> None:
    record = merge_turn(None, {"number": 1, "seed": 0})
    record = merge_turn(record, {"last": [3, 2, "b"]})
    record = merge_turn(record, {"last": [3, 1, "a"], "visits": {"m": 1}})
    record = merge_turn(record, {"visits": {"n": 1}, "error": [4, 0, "x", "boom"]})
    assert record.get("last") == [3, 2, "b"]
    assert record.get("visits") == {"m": 1, "n": 1}
    assert merge_turn(record, {"number": 2}) == {"number": 2}


def test_references_are_looked_up() -> None:
    outputs = {"n": {"k": '{"a": [5]}', "none": None}}
    globals_: dict[str, JsonValue] = {"sys.files": ["f"], "env.a.b": 1, "env.a": {"b": 2, "c": 3}}

    def value(text: str) -> object:
        reference = parse_reference(text)
        assert reference is not None
        return look_up(reference, globals_, outputs)

    assert [value(name) for name in ("n@k.a.0", "n@none", "n@missing", "x@y", "n@missing.deep")] == [
        5,
        None,
        "",
        "",
        None,
    ]
    missing = parse_reference("n@missing")
    assert missing is not None
    assert look_up(missing, globals_, outputs, {"missing"}) is None
    assert value("env.b." + "a." * 200_000 + "a") == ""
    assert (value("sys.files.0"), value("env.a.b"), value("env.a.c"), value("env.nope")) == ("f", 1, 3, "")


def test_a_message_with_an_existing_id_is_replaced_in_place() -> None:
    first = merge_messages(None, [{"id": "1", "content": "a"}, {"id": "2", "content": "b"}])
    merged = merge_messages(first, [{"id": "1", "content": "c"}, {"content": "d"}, {"content": "e"}])
    assert [message["content"] for message in merged] == ["c", "b", "d", "e"]
    assert first[0]["content"] == "a"
    assert merge_messages(merged, replace_list([])) == []
