import pytest

import ragflow_lg
from ragflow_lg.runs.runner import Runner


def test_the_face_of_the_package() -> None:
    assert ragflow_lg.Runner is Runner
    graph = ragflow_lg.load_canvas("examples/price_list.json")
    assert graph.canvas.plan.entry == "begin"
    assert "begin" in graph.get_graph().nodes
    assert issubclass(ragflow_lg.CompileError, ragflow_lg.RagflowLgError)
    assert set(ragflow_lg.__all__) < set(dir(ragflow_lg))
    assert ragflow_lg.__all__ == sorted(ragflow_lg.__all__)
    with pytest.raises(AttributeError):
        _ = ragflow_lg.nothing  # type: ignore[attr-defined] - the name does not exist on purpose
