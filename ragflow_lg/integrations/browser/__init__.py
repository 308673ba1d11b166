"""Browser: a chat model that operates web pages in Chromium, through a proxy that checks every address."""

from ragflow_lg.component.integration import Integration, Service

INTEGRATION = Integration(
    __name__,
    components={"Browser": ".browser"},
    sections={"browser": ".browser_settings:BrowserSection"},
    services=(Service(".browsers:Browsers", ".chromium_browser:open_browsers"),),
    probe=".chromium_browser:probe_browser",
    prompts={"browser": ".browser_prompt:PROMPT"},
)
