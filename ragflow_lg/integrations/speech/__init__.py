"""Speech by OpenAI-compatible endpoints: Messages that are spoken, and audio files as text."""

from ragflow_lg.component.integration import Integration, NeedKind, Service

_SECTION = """\
[speech.{key}]
base_url = "https://…/v1"
api_key = {{ env = "{variable}_API_KEY" }}
"""

INTEGRATION = Integration(
    __name__,
    sections={"speech": ".speech_settings:SpeechSections", "transcription": ".speech_settings:TranscriptionSection"},
    services=(Service("ragflow_lg.services.speech:Speech", ".endpoint_speech:open_speech"),),
    needs={
        "speech": NeedKind(
            "speech model", "model-unavailable", ".speech_settings:find_problem", _SECTION, "tts-1@OpenAI"
        )
    },
    routes=(".speech_routes:router",),
)
