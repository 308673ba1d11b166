/** Turns of embedded pages, through RAGFlow's route for them: it sends messages, forms and the end, and nothing else. */

import { begunOf } from "./runs.js";
import { fold, reopen } from "./turn.js";

/** @typedef {import("./turn.js").Turn} Turn */

const LOOK_MS = 1000;
const MAX_LOOK_MS = 30_000;

/** @param {{status: number}} error @returns {boolean} Whether it does not go away by itself. */
export function isFinal({ status }) {
  return status >= 400 && status < 500 && status !== 429;
}

/**
 * Play a turn to its end. It is cancelled when the visitor leaves.
 * @param {import("./api.js").Api} api @param {string} agent @param {Turn} first @param {any} body
 * @param {(turn: Turn) => void} show @param {AbortSignal} signal @returns {Promise<Turn>}
 */
export async function playPublic(api, agent, first, body, show, signal) {
  let now = { ...first, pauses: /** @type {any[]} */ ([]) };
  const headers = { "X-RAGFlow-On-Disconnect": "cancel" };
  const path = `api/v1/agentbots/${encodeURIComponent(agent)}/completions`;
  for await (const { data } of api.frames(path, { method: "POST", body, signal, headers })) {
    now = foldPublic(now, data);
    show({ ...now, pauses: first.pauses });
  }
  if (now.status === "waiting") return { ...now, pauses: await readPauses(api, agent, now) };
  return now.status === "running" || now.status === "starting" ? { ...now, status: "succeeded" } : now;
}

/** @param {import("./api.js").Api} api @param {string} agent @param {string} session @returns {string} */
function visitPath(api, agent, session) {
  return api.path(agent, `sessions/${session}/visit`);
}

/**
 * Return the forms that wait, each by itself: a stream has the fields of all in one.
 * @param {import("./api.js").Api} api @param {string} agent @param {Turn} turn @returns {Promise<any[]>}
 */
async function readPauses(api, agent, turn) {
  const stored = await api.request(visitPath(api, agent, turn.sessionId)).catch(() => null);
  return stored?.pauses.length ? stored.pauses : turn.pauses;
}

/**
 * Return the turns of a visitor's session, when none goes on: the visitor's leaving ends it. A server that cannot say them
 * is asked again.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} session @param {AbortSignal} signal
 * @param {(problem: string) => void} onProblem @returns {Promise<{turn: Turn | null, earlier: Turn[]}>}
 */
export async function reopenPublic(api, agent, session, signal, onProblem) {
  for (let pause = LOOK_MS; ; await new Promise((done) => setTimeout(done, pause))) {
    try {
      const stored = await api.request(visitPath(api, agent, session), { signal });
      const run = begunOf(stored.runs);
      if (run?.status !== "running") return { ...reopen(stored, run, stored.runs, null), ...(run ? {} : { turn: null }) };
    } catch (/** @type {any} */ error) {
      if (signal.aborted || isFinal(error)) throw error;
      onProblem(error.message);
      pause = Math.min(2 * pause, MAX_LOOK_MS);
    }
  }
}

/** @param {Turn} turn @param {any} frame A frame of RAGFlow. @returns {Turn} */
function foldPublic(turn, frame) {
  const known = { ...turn, sessionId: frame.session_id || turn.sessionId };
  if (frame.code) {
    const text = turn.shown.text.replace(`Error 102: ${frame.message}`, ""); // it was sent as a text before
    return { ...known, status: "failed", error: String(frame.message), shown: { ...turn.shown, text } };
  }
  if (frame.event === "user_inputs") {
    const pause = { id: `${frame.message_id}-${turn.pauses.length}`, node: "", tips: frame.data.tips, fields: frame.data.inputs };
    return { ...known, status: "waiting", pauses: [...turn.pauses, pause] };
  }
  if (frame.event === "workflow_finished") return { ...known, status: turn.pauses.length ? "waiting" : "succeeded" };
  if (!frame.event) return known;
  const event = { run_id: frame.message_id, session_id: frame.session_id, data: frame.data };
  return fold({ ...known, status: "running" }, { id: "", event: frame.event, data: event });
}
