import numpy as np
import pytest

from ragflow_lg.adapters.knowledge.embedders import HASHING_MODEL, ConfiguredEmbedders, HashingEmbedder
from ragflow_lg.adapters.knowledge.endpoint_embedder import EmbeddingSettings
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


async def test_vectors_have_length_1_and_do_not_depend_on_word_order() -> None:
    embedder = HashingEmbedder()
    (vector,) = await embedder.embed_chunks(["Two kettles 水壶"])
    places = [(i, round(x, 4)) for i, x in enumerate(vector) if x]
    assert places == [(61, 0.5774), (102, -0.5774), (188, 0.5774)]
    assert list(await embedder.embed_question("kettle, two 水壶")) == list(vector)


def test_a_text_without_words_has_a_zero_vector() -> None:
    assert not np.any(HashingEmbedder().vectors(["…", ""]))


def test_the_name_says_that_it_is_a_stand_in() -> None:
    assert HashingEmbedder.is_stand_in
    assert "stand-in" in HashingEmbedder.name
