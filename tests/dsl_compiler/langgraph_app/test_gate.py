from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl.joins import JoinRegion
from ragflow_lg.dsl_compiler.langgraph_app.gate import RESET, SETTLE, JoinGate, gate_key

A, B, J = NodeId("a"), NodeId("b"), NodeId("j")
REGION = JoinRegion(J, (A, B), ((A, (NodeId("top"),)), (B, (NodeId("top"),))), frozenset({A, B}))


def test_the_gate_opens_when_all_tokens_have_arrived_and_closes_when_the_join_runs() -> None:
    gate = JoinGate(REGION)
    assert gate.update([{"a": None}])
    assert not gate.is_available()
    gate.update([{"b": None}])
    assert gate.is_available()
    assert set(gate.get()) == {"a", "b"}
    assert gate.consume()
    assert not gate.is_available()
    assert not gate.consume()


def test_tokens_of_one_superstep_count_together() -> None:
    gate = JoinGate(REGION)
    gate.update([{"a": None}, {"b": None}])
    assert gate.is_available()


def test_a_reset_clears_the_tokens() -> None:
    gate = JoinGate(REGION)
    gate.update([{"a": None}])
    gate.update([RESET])
    gate.update([{"b": None}])
    assert not gate.is_available()


def test_the_entry_may_reset_and_report_in_one_update() -> None:
    gate = JoinGate(JoinRegion(J, (A,), (), frozenset({A})))
    gate.update([{**RESET, "a": ["j"]}])
    assert gate.is_available()


def test_a_reset_with_a_token_clears_the_tokens_of_a_failed_turn() -> None:
    gate = JoinGate(REGION)
    gate.update([{"b": None}])
    gate.update([{**RESET, "a": None}])
    assert set(gate.seen) == {"a"}
    assert not gate.is_available()


def test_settling_opens_a_gate_with_one_live_edge_and_no_other() -> None:
    gate = JoinGate(REGION)
    gate.update([SETTLE])
    assert not gate.is_available()
    gate.update([{"a": None}])
    gate.update([SETTLE])
    assert gate.is_available()


def test_a_gate_is_restored_from_its_checkpoint() -> None:
    gate = JoinGate(REGION)
    gate.update([{"a": ["j", "x"]}])
    again = JoinGate(REGION).from_checkpoint(gate.checkpoint())
    again.update([{"b": None}])
    assert again.is_available()
    assert not gate.is_available()
    assert gate.copy().seen == gate.seen
    assert gate_key("Agent:X") == "join_Agent:X"
