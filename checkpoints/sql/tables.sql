CREATE TABLE IF NOT EXISTS session_checkpoints (
    thread_id TEXT NOT NULL, namespace TEXT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL,
    checkpoint {bytes} NOT NULL, metadata {bytes} NOT NULL, PRIMARY KEY (thread_id, namespace, id)
);
CREATE TABLE IF NOT EXISTS session_writes (
    thread_id TEXT NOT NULL, namespace TEXT NOT NULL, id TEXT NOT NULL, task TEXT NOT NULL, number BIGINT NOT NULL,
    channel TEXT NOT NULL, value {bytes} NOT NULL, PRIMARY KEY (thread_id, namespace, id, task, number)
);
CREATE TABLE IF NOT EXISTS session_blobs (
    thread_id TEXT NOT NULL, name TEXT NOT NULL, content {bytes} NOT NULL, PRIMARY KEY (thread_id, name)
);
CREATE TABLE IF NOT EXISTS leases (
    thread_id TEXT PRIMARY KEY, token BIGINT NOT NULL, owner TEXT NOT NULL, expires_ms BIGINT NOT NULL,
    is_cancelled BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, session TEXT NOT NULL, name TEXT NOT NULL, canvas_id TEXT NOT NULL,
    canvas_hash TEXT NOT NULL, tenant TEXT NOT NULL, checkpoint TEXT NOT NULL, parent_run TEXT NOT NULL,
    status TEXT NOT NULL, reason TEXT NOT NULL, is_cancel_requested BIGINT NOT NULL,
    started_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL, ended_ms BIGINT NOT NULL, model TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_of_session ON runs (session, started_ms);
CREATE TABLE IF NOT EXISTS traces (
    run_id TEXT NOT NULL, kind TEXT NOT NULL, session TEXT NOT NULL, started_ms BIGINT NOT NULL, trace TEXT NOT NULL,
    PRIMARY KEY (run_id, kind)
);
CREATE INDEX IF NOT EXISTS traces_of_session ON traces (session, started_ms);
