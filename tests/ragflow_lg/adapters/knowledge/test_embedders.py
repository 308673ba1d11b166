from __future__ import annotations

import pytest

from ragflow_lg.adapters.knowledge.embedders import ConfiguredEmbedders
from ragflow_lg.adapters.knowledge.endpoint_embedder import EmbeddingSettings
from ragflow_lg.adapters.knowledge.hash_embedder import HASHING_MODEL
from ragflow_lg.base.errors import SettingsError
from tests.fakes.services import ScriptedHttp

SETTINGS = {name: EmbeddingSettings("https://models.example/v1", name) for name in ("bge", "m3@Silicon")}


@pytest.mark.parametrize(
    ("id_", "name"),
    [
        ("bge", "bge"),
        ("bge@Somewhere", "bge"),
        ("m3@Silicon", "m3@Silicon"),
        ("m3@Silicon#x", "m3@Silicon"),
        ("", "bge"),
    ],
)
def test_a_model_is_found_by_its_id(id_: str, name: str) -> None:
    assert ConfiguredEmbedders(SETTINGS, ScriptedHttp(), default="bge").embedder(id_).name == name


def test_without_settings_the_hashing_model_is_used() -> None:
    embedders = ConfiguredEmbedders({}, ScriptedHttp())
    assert embedders.default == HASHING_MODEL
    assert embedders.embedder("").is_stand_in


def test_the_error_for_an_unknown_model_names_the_setting() -> None:
    with pytest.raises(
        SettingsError, match=r"no embedding model 'x'.*\[embeddings\.\"x\"\].*Known models: 'bge', 'm3@Silicon'"
    ):
        ConfiguredEmbedders(SETTINGS, ScriptedHttp()).embedder("x")
