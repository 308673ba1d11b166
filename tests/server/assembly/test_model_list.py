import pytest

from ragflow_lg.server.assembly.model_list import list_models
from ragflow_lg.server.settings import Settings


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_without_settings_there_is_only_the_demo_model() -> None:
    (model,) = list_models(Settings())
    assert (model.id, model.kinds, model.is_default) == ("demo", ("chat",), True)


def test_a_model_is_listed_once_with_its_provider() -> None:
    settings = Settings.model_validate(
        {
            "default_model": "qwen3",
            "providers": {"Local": {"base_url": "http://localhost/v1", "models": ["qwen3"]}, "Other": {}},
            "models": {"qwen3@Local": {"has_vision": False}, "org/m@2@east@Other": {}},
        }
    )
    models = list_models(settings)
    assert [(model.id, model.is_default) for model in models] == [
        ("qwen3@Local", True),
        ("org/m@2@east@Other", False),
        ("demo", False),
    ]
    assert (models[0].kinds, models[1].name, models[1].instance) == (("chat",), "org/m@2", "east")
