"""Moving in from a running RAGFlow: a folder with its agents, and what differs here and there.

`manifest`, `file_names`, `agent_files`, `agent_changes`, `transcripts` and `settings_text` compute only; `folder`
reads and writes the folder. `puller` fills the folder, `pusher` sends changes back. `folder_import` moves a folder into
this server: `database_import` stores agents and messages, `thread_import` the states of sessions. May import everything
below `http`.
"""
