from tests.server.cli.command import invoke


def test_it_explains_itself() -> None:
    result = invoke("continue", "--help")
    assert result.exit_code == 0
    assert "ragflow-lg continue" in result.stdout
