from ragflow_lg.agents.plan_prompts import PROMPTS, prompt_of


def test_a_section_of_the_canvas_replaces_a_prompt() -> None:
    sections = {"REFLECTION": " Mine. ", "TASK_ANALYSIS": "  "}
    assert prompt_of(sections, "REFLECTION") == "Mine."
    assert prompt_of(sections, "TASK_ANALYSIS") == PROMPTS["TASK_ANALYSIS"]
