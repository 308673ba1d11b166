"""Speech by OpenAI-compatible endpoints: ``/audio/speech`` and ``/audio/transcriptions``."""
