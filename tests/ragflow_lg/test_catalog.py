from ragflow_lg.catalog import load_catalog


def test_all_components_are_found() -> None:
    names = [spec.name for spec in load_catalog()]
    assert {"Begin", "Message", "LLM", "Switch", "Invoke"} <= set(names)
    assert names == sorted(names, key=str.lower)
    assert load_catalog().get("Parallel") is not None
