"""Dockerfile, compose file and unit, which no engine runs here, are read by linters and held against the settings."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragflow_lg.server.settings import load_settings
from tests.architecture.sources import FOLDERS, ROOT

HADOLINT = Path(sys.executable).parent / "hadolint"
UNIT = ROOT / "deploy" / "ragflow-lg.service"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))


def test_the_dockerfile_passes_hadolint() -> None:
    done = subprocess.run([HADOLINT, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_small_and_nobody_is_root_in_it() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == ["10001:10001"]
    assert all("slim" in base for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE))
    assert "HEALTHCHECK" in text
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*"
    assert {f"!{package}" for package in FOLDERS} <= set(ignored)
    assert all(f"COPY {package} {package}" in text for package in FOLDERS)


def test_the_variables_of_the_image_are_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "Dockerfile").read_text("utf-8")
    for name, value in re.findall(r"(RAGFLOW_LG_\w+)=(\S+)", text):
        monkeypatch.setenv(name, value)
    section = load_settings().server
    assert (section.host, section.log_format) == ("0.0.0.0", "json")


def test_the_variables_of_compose_are_settings(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in compose["services"]["server"]["environment"].items():
        assert isinstance(value, str), f"{name}: compose takes texts only"
        if name.startswith("RAGFLOW_LG_"):
            monkeypatch.setenv(name, re.sub(r"\$\{\w+:[?-][^}]*\}", "secret", value))
    settings = load_settings(ROOT / "deploy" / "ragflow-lg.toml")
    assert settings.checkpoints == "redis://redis:6379/0"
    assert settings.server.database.get_secret_value() == "postgresql://ragflow:secret@postgres/ragflow"
    assert settings.server.requests_per_minute == 1200


def test_compose_mounts_settings_and_passes_the_keys_that_they_name(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = compose["services"]["server"]
    assert server["env_file"] == [{"path": ".env", "required": False}]
    (source, target, mode), *_ = [volume.split(":") for volume in server["volumes"] if volume.startswith("./")]
    assert (target, mode) == ("/data/ragflow-lg.toml", "ro")
    lines = (ROOT / source).read_text("utf-8").splitlines()
    examples = [line.removeprefix("# ") for line in lines if re.match(r"# (\w+ = |\[)", line)]
    (tmp_path / "ragflow-lg.toml").write_text("\n".join(examples))
    monkeypatch.setenv("DASHSCOPE_API_KEY", "key")
    assert server["environment"]["RAGFLOW_LG_SETTINGS"] == target
    settings = load_settings(tmp_path / "ragflow-lg.toml")
    assert settings.chat_settings().providers["Tongyi-Qianwen"].api_key == "key"
    monkeypatch.delenv("DASHSCOPE_API_KEY")  # a known key would choose its provider's model
    assert load_settings(ROOT / source).chat_settings().default_model == "demo"
    assert server["environment"]["OPENAI_API_KEY"] == "${OPENAI_API_KEY:-}"


def test_services_are_healthy_before_the_server_starts_and_pinned(compose: dict[str, Any]) -> None:
    services: dict[str, dict[str, Any]] = compose["services"]
    assert set(services["server"]["depends_on"]) == {"redis", "postgres"}
    for name in services["server"]["depends_on"]:
        assert services["server"]["depends_on"][name] == {"condition": "service_healthy"}
        assert services[name]["healthcheck"]["test"][0] == "CMD"
        assert re.search(r":\d", services[name]["image"]), name
        assert "ports" not in services[name]
    assert services["redis"]["image"].startswith("redis:8")


def test_the_server_of_compose_has_few_rights(compose: dict[str, Any]) -> None:
    server = compose["services"]["server"]
    assert (server["read_only"], server["cap_drop"]) == (True, ["ALL"])
    assert "privileged" not in server
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    volumes = [volume for service in compose["services"].values() for volume in service["volumes"]]
    mounted = {volume.partition(":")[0] for volume in volumes if not volume.startswith("./")}
    assert mounted == set(compose["volumes"])
    grace_s = int(server["stop_grace_period"].removesuffix("s"))
    assert grace_s > load_settings().server.drain_s


def test_no_service_can_take_the_whole_machine(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert re.fullmatch(r"[1-9]\d*g", service["mem_limit"]), name
        assert service["cpus"] > 0
        assert 0 < service["pids_limit"] < 10_000
    command: list[str] = compose["services"]["redis"]["command"]
    assert int(command[command.index("--maxmemory") + 1].removesuffix("gb")) < int(
        compose["services"]["redis"]["mem_limit"].removesuffix("g")
    )
    unit = dict(line.split("=", 1) for line in UNIT.read_text("utf-8").splitlines() if re.match(r"\w+=", line))
    assert {"MemoryMax", "MemoryHigh", "CPUQuota", "TasksMax"} <= unit.keys()
    assert unit["TasksMax"].isdigit()


def test_no_password_stands_in_the_files(compose: dict[str, Any]) -> None:
    assert compose["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    for file in ("Dockerfile", "docker-compose.yml", "deploy/ragflow-lg.service", "deploy/ragflow-lg.toml"):
        assert not re.search(r"(?i)(password|secret|key)\s*[:=]\s*[\w\"']{6,}", (ROOT / file).read_text("utf-8")), file


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit_and_finds_it_safe(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text("utf-8"), flags=re.MULTILINE))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    ours = [line for line in verified.stderr.splitlines() if UNIT.name in line]
    assert ours == []
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", unit]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout[-500:] + judged.stderr


def test_the_unit_leaves_runs_the_time_to_stop() -> None:
    found = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text("utf-8"), re.MULTILINE)
    assert found
    assert int(found[1]) > load_settings().server.drain_s
