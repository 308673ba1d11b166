from tests.server.cli.command import call


def test_a_worker_needs_a_queue() -> None:
    result = call("worker")
    assert result.returncode == 2
    assert "A worker needs a queue" in result.stderr


def test_a_worker_needs_the_database_of_the_servers() -> None:
    result = call("worker", "--queue", "redis://127.0.0.1:1")
    assert result.returncode == 2
    assert "set database in the section [server]" in " ".join(result.stderr.split())
