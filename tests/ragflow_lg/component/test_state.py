from ragflow_lg.component.state import merge_outputs, merge_turn, output_patch


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
