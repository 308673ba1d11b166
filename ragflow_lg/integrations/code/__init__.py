"""CodeExec: programs that canvases and models have written, in a sandbox of this machine or of a service."""

from ragflow_lg.component.integration import Command, Integration, Service

INTEGRATION = Integration(
    __name__,
    components={"CodeExec": ".code_exec"},
    sections={"code": ".code_settings:CodeSection"},
    services=(Service(".programs:CodeSandbox", ".open_sandbox:open_for_runs"),),
    probe=".open_sandbox:probe_sandbox",
    commands={"sandbox": Command("Serve", ".sandbox_command:sandbox", "Run programs of CodeExec as a service.")},
)
