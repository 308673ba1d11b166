"""The canvases for the built-in agent templates, as JSON files. Contains no code."""
