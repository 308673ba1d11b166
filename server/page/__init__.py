"""The page: chat with agents, watch their graph, answer forms. Static files without a build step.

`index.html` loads `js/main.js`, which names an agent and a session by the address. `workspace.js` holds what happens
between the conversation (`chat.js`, `composer.js`, `forms.js`), the graph (`graph.js`) and the panels (`panels.js`).
`runs.js` starts and follows runs, `turn.js` folds their events, and `api.js` sends requests. The page uses the public
APIs only. A run file is another page with the same graph and run log (`run_file.js`, `record.js`); the module
`run_file` writes it. The libraries in `vendor/` are fetched by `.ci/vendor_page.py`.
"""
