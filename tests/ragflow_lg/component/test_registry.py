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


def test_two_packages_with_the_same_name_are_a_settings_error() -> None:
    both = [placeholder_spec("Echo"), placeholder_spec("echo")]
    registry = Registry({"installed": lambda: both})
    with pytest.raises(SettingsError, match=r"'echo' is taken by 'Echo'.* Two installed packages"):
        registry.get("Other")


def test_concurrent_lookups_get_the_same_specs() -> None:
    for _ in range(5):
        registry = load_catalog()
        together = Barrier(8)

        def ask(name: str, registry: Registry = registry, together: Barrier = together) -> object:
            together.wait()
            return registry.get(name)

        with ThreadPoolExecutor(8) as pool:
            specs = list(pool.map(ask, ["Begin", "Message", "LLM", "Begin", "Message", "LLM", "Agent", "nothing"]))
        assert None not in specs[:7]
        assert specs[:3] == specs[3:6]
