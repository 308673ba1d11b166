from ragflow_lg.adapters.memories.background_tasks import BackgroundTasks


async def test_a_task_with_the_name_of_another_one_does_not_start() -> None:
    count = 0
    tasks = BackgroundTasks()

    async def work() -> None:
        nonlocal count
        count += 1

    tasks.start("name", work)
    tasks.start("name", work)
    await tasks.settle()
    assert count == 1
