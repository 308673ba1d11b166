import json
from importlib import metadata
from typing import Any
from xml.etree import ElementTree

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


def test_a_notebook_shows_the_picture_of_the_canvas() -> None:
    graph = ragflow_lg.load_canvas("examples/customer_service_router.json")
    bundle = graph._repr_mimebundle_(include=None, exclude=None)  # pyright: ignore[reportPrivateUsage]
    svg = bundle["image/svg+xml"]
    assert {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()} >= {"svg", "rect", "text"}
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    assert svg in bundle["text/html"]
    assert {"text/plain", "text/vnd.mermaid"} < set(bundle)


def test_a_canvas_is_checked_in_every_form() -> None:
    assert not [each for each in ragflow_lg.check_canvas("examples/price_list.json") if each.severity == "error"]
    broken: Any = {"components": {"begin": {"obj": {"component_name": "Begn", "params": {}}}}}
    for source in (broken, json.dumps(broken), json.dumps(broken).encode()):
        errors = [each for each in ragflow_lg.check_canvas(source) if each.severity == "error"]
        assert errors
        assert all(error.line for error in errors)
    with pytest.raises(ragflow_lg.RagflowLgError, match=r"missing\.json"):
        ragflow_lg.check_canvas("missing.json")


def test_the_version_is_that_of_the_distribution() -> None:
    assert ragflow_lg.__version__ == metadata.version("ragflow-lg")
