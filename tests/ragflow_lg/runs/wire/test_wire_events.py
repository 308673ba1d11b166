from ragflow_lg.runs.wire import wire_events as wire


def test_a_frame_has_the_keys_of_ragflow_in_the_same_order() -> None:
    envelope = wire.Envelope("m", 7, "s", "s")
    frame = envelope.wrap(wire.WireNodeStarted("a", "Title", "Message", 8))
    assert list(frame) == ["event", "message_id", "created_at", "task_id", "data", "session_id"]
    data = frame["data"]
    assert isinstance(data, dict)
    assert list(data) == ["inputs", "created_at", "component_id", "component_name", "component_type", "thoughts"]


def test_each_event_has_the_data_of_ragflow() -> None:
    assert wire.WorkflowStarted(None).data() == {"inputs": None}
    assert wire.Message("x").data() == {"content": "x"}
    assert wire.Message("", start_to_think=True).data() == {"content": "", "start_to_think": True}
    assert wire.Message("", end_to_think=True).data() == {"content": "", "end_to_think": True}
    assert wire.MessageEnd({"status": 200}).data() == {"status": 200}
    assert wire.UserInputs({"a": {}}, "tip").data() == {"inputs": {"a": {}}, "tips": "tip"}
    assert wire.WorkflowFinished({}, {"content": "x"}, 1.5, 7).data()["outputs"] == {"content": "x"}
    finished = wire.WireNodeFinished({}, {"x": 1}, "a", "", "Message", None, 0.5, 7.0).data()
    assert finished["outputs"] == {"x": 1, "_created_time": 7.0, "_elapsed_time": 0.5}
