from ragflow_lg.component.memory_steps import MemorySteps


async def test_a_result_is_there_once_it_was_put_even_null() -> None:
    steps = MemorySteps()
    assert await steps.find("a") == (False, None)
    await steps.put("a", None)
    assert await steps.find("a") == (True, None)
