import pytest

import ragflow_lg
from ragflow_lg.runner import Runner


def test_the_face_of_the_package() -> None:
    assert ragflow_lg.Runner is Runner
    canvas = ragflow_lg.load_canvas("examples/price_list.json")
    assert canvas.plan.entry == "begin"
    with pytest.raises(AttributeError):
        _ = ragflow_lg.nothing  # type: ignore[attr-defined]
