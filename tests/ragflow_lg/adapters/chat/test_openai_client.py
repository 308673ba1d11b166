from ragflow_lg.adapters.chat import openai_client


def test_the_slow_import_stands_alone() -> None:
    assert openai_client.__name__ == "ragflow_lg.adapters.chat.openai_client"
    assert openai_client.__all__
