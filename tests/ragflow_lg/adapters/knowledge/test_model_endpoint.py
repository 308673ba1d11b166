import pytest

from ragflow_lg.adapters.knowledge.model_endpoint import EndpointSettings, ModelEndpoint, find_model_id, list_models
from ragflow_lg.base.errors import ServiceError
from tests.fakes.services import ScriptedHttp
from tests.harness.rows import each_row

SETTINGS = EndpointSettings("https://models.example/v1/", "bge", "s3cret")


@each_row(
    ("id_", "found"),
    [("m@A", "m@A"), ("m@A#x", "m@A"), ("bge", "bge"), ("bge@B", "bge"), ("other", None), ("m", None)],
)
def test_an_id_is_found_with_or_without_the_provider(id_: str, found: str | None) -> None:
    assert find_model_id(id_, {"m@A": 1, "bge": 2}) == found


def test_known_models_are_listed() -> None:
    assert list_models({"a": 1, "b": 2}) == " Known models: 'a', 'b'."
    assert list_models(()) == ""


def test_errors_name_the_model_and_never_show_the_key() -> None:
    endpoint = ModelEndpoint('rerank model [rerankers."m"]', SETTINGS, ScriptedHttp(), longest_pause_s=1)
    with pytest.raises(ServiceError, match=r'^The rerank model \[rerankers\."m"\] said: no \*\*\*\.$'):
        raise endpoint.failure(f"said: {endpoint.excerpt('no s3cret.')}")
    assert repr(SETTINGS) == "EndpointSettings('https://models.example/v1/', 'bge')"
    assert endpoint.excerpt(" \n") == "nothing"
    assert len(endpoint.excerpt("x" * 10_000)) == 300
