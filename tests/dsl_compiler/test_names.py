from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.dsl_compiler.names import CLOSING_NODE, graph_name, node_id


@given(st.text())
def test_names_are_reversible(id_: str) -> None:
    name = graph_name(id_)
    assert node_id(name) == id_
    assert not set(name) & {":", "|"}
    assert not name.startswith("__")
    assert name != CLOSING_NODE


@given(st.text(alphabet="a:.%_|2EC", max_size=6), st.text(alphabet="a:.%_|2EC", max_size=6))
def test_different_ids_have_different_names(one: str, other: str) -> None:
    assert (graph_name(one) == graph_name(other)) == (one == other)
