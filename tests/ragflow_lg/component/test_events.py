import json
from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.wire.wire_events import Envelope

RECORD = AgentRecord(NodeId("a"), "a-->b", 3, "0.1", "thought", 7.5, {"iteration": 1, "text": "Hm."})


def test_the_json_form_of_a_record() -> None:
    assert RECORD.data() == {
        "component_id": "a",
        "path": "a-->b",
        "visit": 3,
        "caller": "0.1",
        "kind": "thought",
        "created_at": 7.5,
        "is_replayed": False,
        "iteration": 1,
        "text": "Hm.",
    }


def test_a_record_can_be_sent_in_the_envelope_of_a_turn() -> None:
    record: Any = RECORD
    frame = json.loads(json.dumps(Envelope("m", 7, "t", "s").wrap(record)))
    assert (frame["event"], frame["message_id"], frame["data"]["text"]) == ("agent_record", "m", "Hm.")
