from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.placeholder import placeholder_spec


def test_names_ignore_case_and_may_not_clash() -> None:
    registry = Registry()
    registry.add(placeholder_spec("Echo"))
    assert registry.get("eCHO") is registry.get("Echo")
    assert registry.get("Other") is None
    with pytest.raises(ValueError, match="taken by 'Echo'"):
        registry.add(placeholder_spec("echo"))
    replacement = placeholder_spec("echo")
    registry.add(replacement, replace=True)
    assert list(registry) == [replacement]
    assert registry.near("Ecko") == ["echo"]
    both = [placeholder_spec("Echo"), placeholder_spec("echo")]
    with pytest.raises(SettingsError, match=r"'echo' is taken by 'Echo'.* Two installed packages"):
        Registry({"installed": lambda: both}).get("Other")


def test_concurrent_lookups_get_the_same_specs() -> None:
    registry, together = load_catalog(), Barrier(8)

    def ask(name: str) -> object:
        together.wait()
        return registry.get(name)

    with ThreadPoolExecutor(8) as pool:
        specs = list(pool.map(ask, ["Begin", "Message", "LLM", "Begin", "Message", "LLM", "Agent", "nothing"]))
    assert None not in specs[:7]
    assert specs[:3] == specs[3:6]
