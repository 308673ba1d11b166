/** Runs of a session: start one, follow it over broken connections, answer, stop, continue, fork. */

import { ApiError } from "./api.js";
import { t } from "./texts.js";
import { cut, fold } from "./turn.js";

const RETRY_MS = 1000;
const MAX_RETRIES = 120;
const STOP_MS = 250;
const MAX_STOP_TRIES = 40;
const NAME_LENGTH = 200;

/**
 * Begin a turn or go on with one, and follow it to its end. The page shows each state of the turn.
 *
 * If the connection breaks, or the server dies, the stream continues after the last event, or with the events of the
 * server that continues the run. A run that was left unfinished, and that nobody else has continued, is continued.
 * @param {import("./api.js").Api} api @param {string} agent @param {import("./turn.js").Turn} turn
 * @param {{path: string, body?: any} | null} request The request that begins the run, or null to follow `turn.runId`.
 * @param {(turn: import("./turn.js").Turn) => void} show @param {AbortSignal} signal
 * @returns {Promise<import("./turn.js").Turn>}
 */
export async function play(api, agent, turn, request, show, signal) {
  let now = turn;
  let next = request;
  let ended = now.shown.text.length; // the text of Messages that are complete
  for (let failures = 0; ;) {
    const isContinued = next?.path.includes("/continue");
    try {
      const path = next
        ? api.path(agent, `${next.path}${next.path.includes("?") ? "&" : "?"}records=true`)
        : api.path(agent, `runs/${now.runId}/events?records=true`);
      const options = next
        ? { method: "POST", body: next.body, signal }
        : { signal, headers: now.lastId ? { "Last-Event-ID": now.lastId } : {} };
      for await (const frame of api.frames(path, options)) {
        if (frame.data.run_id && frame.data.run_id !== now.runId) {
          now = { ...(isContinued ? cut(now, ended) : now), lastId: "" };
        }
        now = fold(now, frame);
        if (frame.event === "message_end") ended = now.shown.text.length;
        next = null;
        failures = 0;
        show(now);
        if (frame.event === "end" && now.status !== "interrupted") return now;
      }
      if (now.status === "interrupted" && now.runId) next = { path: `runs/${now.runId}/continue?mode=stream` };
    } catch (error) {
      if (signal.aborted || !now.runId) throw error;
      const gone = error instanceof ApiError && error.status === 410;
      const run = gone ? await api.request(api.path(agent, `runs/${now.runId}`)) : null;
      if (run?.status === "interrupted") {
        next = { path: `runs/${now.runId}/continue?mode=stream` };
        continue;
      }
      if (run && run.status !== "running") return finish(now, run, show);
      if (run) {
        now = { ...cut(now, ended, true), lastId: "" }; // the server continues it by itself, with events of its own
        next = null;
      } else if (error instanceof ApiError && error.status && error.status < 500) {
        if (error.status !== 409 || !isContinued) throw error;
        const newest = await lastRun(api, agent, now.sessionId); // somebody else continues the turn
        if (newest && newest.id !== now.runId) now = { ...cut(now, ended), runId: newest.id, lastId: "" };
        next = null;
      }
    }
    if (++failures > MAX_RETRIES) {
      show({ ...now, status: "interrupted" }); // the reader can try again
      throw new ApiError(0, "unreachable", t("unreached"));
    }
    show({ ...now, status: "reconnecting" });
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}

/**
 * Return a turn whose events are no longer stored, from its run.
 * @param {import("./turn.js").Turn} turn @param {any} run @param {(turn: import("./turn.js").Turn) => void} show
 */
function finish(turn, run, show) {
  const empty = { ...turn, shown: { ...turn.shown, text: "" } };
  const now = fold(empty, { id: "", event: "end", data: { run, error: null } });
  show(now);
  return now;
}

/** @param {import("./api.js").Api} api @param {string} agent @param {string} session @returns {Promise<any>} */
export async function loadSession(api, agent, session) {
  return api.request(api.path(agent, `sessions/${session}`));
}

/**
 * Return a session and its last run, both as they were at one time.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} session
 * @returns {Promise<{stored: any, run: any, runs: any[]}>} `runs`: the last ones, also of the sessions that it is a
 *   copy of.
 */
export async function loadWithRun(api, agent, session) {
  for (let before = await lastRun(api, agent, session); ;) {
    const stored = await loadSession(api, agent, session);
    const runs = await listRuns(api, agent, session, 100);
    const run = begunOf(runs);
    if (run?.id === before?.id && run?.status === before?.status) {
      return { stored, run, runs: await withOrigins(api, agent, stored.messages, runs) };
    }
    before = run;
  }
}

/**
 * Return runs with those of the sessions that a fork has copied its messages from, as far as they still exist.
 * @param {import("./api.js").Api} api @param {string} agent @param {any[]} messages @param {any[]} runs
 * @returns {Promise<any[]>}
 */
async function withOrigins(api, agent, messages, runs) {
  const known = new Set(runs.map(({ id }) => id));
  const played = [...messages.map(({ run_id: id }) => id), ...runs.map(({ parent_run_id: id }) => id)];
  const copied = played.findLast((id) => id && !known.has(id));
  const origin = copied && await api.request(api.path(agent, `runs/${copied}`)).catch(() => null);
  if (!origin || runs.some((run) => run.session_id === origin.session_id)) return runs;
  const others = await listRuns(api, agent, origin.session_id, 100);
  return withOrigins(api, agent, messages, [...runs, ...others]);
}

/**
 * Return the last run of a session, if possible one that has begun.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} session @returns {Promise<any | null>}
 */
export async function lastRun(api, agent, session) {
  return begunOf(await listRuns(api, agent, session, 10));
}

/**
 * Stop what runs in a session, and wait until it has ended.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} session
 */
export async function stopRun(api, agent, session) {
  const run = await lastRun(api, agent, session);
  if (run?.status !== "running") return;
  await api.request(api.path(agent, `runs/${run.id}/cancel`), { method: "POST" });
  for (let tries = 0; tries < MAX_STOP_TRIES && (await loadSession(api, agent, session)).is_busy; tries++) {
    await new Promise((done) => setTimeout(done, STOP_MS));
  }
}

/**
 * @param {import("./api.js").Api} api @param {string} agent @param {string} session @param {number} count
 * @returns {Promise<any[]>}
 */
async function listRuns(api, agent, session, count) {
  return (await api.request(api.path(agent, `runs?session_id=${session}&page_size=${count}`))).runs;
}

/** @param {any[]} runs Newest first. @returns {any | null} */
export function begunOf(runs) {
  return runs.find((run) => run.status !== "refused") ?? runs[0] ?? null;
}

/**
 * Return the session in which a message is sent again: a copy that ends before the message, or "" for a new one.
 *
 * It is named after the message. If that was the answer to a form, the copy waits for it, or can be continued up to it:
 * `hasForm`. If its turn ran with a draft, the copy does. `fresh` is what a new session is to be begun with.
 * @param {import("./api.js").Api} api @param {string} agent @param {import("./turn.js").Turn[]} turns @param {number} at
 * @param {string} text @returns {Promise<{session: string, hasForm: boolean, fresh: Record<string, string>}>}
 */
export async function forkBefore(api, agent, turns, at, text) {
  const next = turns.findIndex(({ query }, number) => number > at && query);
  const trial = await trialOf(api, agent, lastRunOf(turns.slice(at, next < 0 ? undefined : next)));
  const run = lastRunOf(turns.slice(0, at));
  /** @type {Record<string, string>} */
  const named = text.trim() ? { session_name: `↳ ${text.replace(/\s+/g, " ").trim().slice(0, NAME_LENGTH)}` } : {};
  if (!run) return { session: "", hasForm: false, fresh: { ...named, ...(trial ? { version: trial } : {}) } };
  const { status } = await api.request(api.path(agent, `runs/${run}`));
  const made = await api.request(api.path(agent, `runs/${run}/fork`), { method: "POST", body: named });
  const session = made.session_id;
  if (trial) await api.request(api.path(agent, `sessions/${session}/version`), { method: "PUT", body: { version: trial } });
  return { session, hasForm: status === "answered", fresh: {} };
}

/** @param {import("./turn.js").Turn[]} turns @returns {string} */
function lastRunOf(turns) {
  return turns.findLast(({ runId }) => runId)?.runId ?? "";
}

/**
 * Return the version that a run has used, if that is a draft which nobody has saved.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} runId @returns {Promise<string>} Its id, or "".
 */
async function trialOf(api, agent, runId) {
  if (!runId) return "";
  try {
    const run = await api.request(api.path(agent, `runs/${runId}`));
    const version = await api.request(api.path(agent, `versions/${run.version_id}`));
    return version.is_trial ? version.id : "";
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return ""; // it is deleted
    throw error;
  }
}

/** @param {import("./api.js").Api} api @param {string} agent @param {File[]} files @returns {Promise<any[]>} */
export async function upload(api, agent, files) {
  const sent = [];
  for (const file of files) {
    const form = new FormData();
    form.append("file", file);
    const answer = await api.ragflow(`agents/${encodeURIComponent(agent)}/upload`, { method: "POST", form });
    sent.push(...(Array.isArray(answer) ? answer : [answer]));
  }
  return sent;
}

/**
 * Return the values of a form, with files in the place of those that were chosen.
 * @param {import("./api.js").Api} api @param {string} agent @param {Record<string, any>} values
 * @returns {Promise<Record<string, any>>}
 */
export async function uploadValues(api, agent, values) {
  const sent = Object.entries(values).map(async ([name, value]) =>
    [name, Array.isArray(value) && value[0] instanceof File ? await upload(api, agent, value) : value]);
  return Object.fromEntries(await Promise.all(sent));
}

/**
 * Return a function that shows the last of many states, once for each picture of the screen.
 * @param {(turn: import("./turn.js").Turn) => void} paint @param {AbortSignal} signal
 * @returns {((turn: import("./turn.js").Turn) => void) & {flush: () => void}} `flush` shows what waits.
 */
export function paced(paint, signal) {
  /** @type {import("./turn.js").Turn | null} */
  let newest = null;
  const flush = () => {
    const shown = newest;
    newest = null;
    if (shown && !signal.aborted) paint(shown);
  };
  const show = (/** @type {import("./turn.js").Turn} */ turn) => {
    const isWaiting = newest !== null;
    newest = turn;
    if (turn.endMs || document.hidden) flush();
    else if (!isWaiting) requestAnimationFrame(flush);
  };
  return Object.assign(show, { flush });
}
