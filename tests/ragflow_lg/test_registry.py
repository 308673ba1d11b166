import pytest

from dsl_compiler.placeholder import placeholder
from ragflow_lg.registry import Registry


def test_names_ignore_case_and_may_not_clash() -> None:
    registry = Registry()
    registry.add(placeholder("Echo", is_ready=True))
    assert registry.get("eCHO") is registry.get("Echo")
    assert registry.get("Other") is None
    with pytest.raises(ValueError, match="taken by 'Echo'"):
        registry.add(placeholder("echo", is_ready=True))
    replacement = placeholder("echo", is_ready=True)
    registry.add(replacement, replace=True)
    assert list(registry) == [replacement]
    assert registry.near("Ecko") == ["echo"]
