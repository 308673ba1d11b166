/** What a stream of events says about a turn: its nodes, texts, calls, forms and end. No DOM, no requests. */

import { citedChunks } from "./citations.js";
import { formRunsOf, isCopy, playerOf } from "./played_runs.js";

/**
 * @typedef {"running"|"done"|"failed"|"waiting"|"stopped"} Status
 * @typedef {{id: string, title: string, type: string, status: Status, visits: number,
 *   seconds: number, inputs: any, outputs: any, error: string, startedAt: number}} NodeState
 * @typedef {{id: string, node: string, path: string, tool: string, title: string, arguments: any, result: any,
 *   error: string, seconds: number, status: "running"|"done"|"failed"}} Call
 * @typedef {{node: string, title: string, type: string, startMs: number, seconds: number, error: string,
 *   status: Status, inputs?: any, outputs?: any, isRepeated?: boolean}} Visit One execution of a node. `isRepeated`: its
 *   events come once more.
 * @typedef {{text: string, thinking: string, isThinking: boolean, chunks: Record<string, any>}} Shown
 * @typedef {{runId: string, sessionId: string, lastId: string, query: string, files: any[], shown: Shown,
 *   nodes: Record<string, NodeState>, order: string[], visits: Visit[], records: any[], calls: Call[],
 *   pauses: any[], downloads: any[], spoken: string[], status: string,
 *   error: string, usage: any, startMs: number, endMs: number, checkpoint: string, isDemo?: boolean,
 *   feedback?: import("./answer_tools.js").Feedback | null, stepsOf?: string, formRuns?: string[], nodeCount?: number,
 *   isEventless?: boolean}} Turn `stepsOf`: the run whose nodes and calls are to be loaded for it, after those of `formRuns`,
 *   whose forms were answered. `nodeCount`: how many nodes it has. `isEventless`: they are what the log of its nodes says.
 */

/** The error of a run, and of its nodes, that a reader has stopped, in RAGFlow's words. */
export const STOPPED = "Task has been canceled";

/** @param {string} query @param {any[]} [files] @returns {Turn} A turn that has not begun. */
export function newTurn(query, files = []) {
  return {
    runId: "", sessionId: "", lastId: "", query, files,
    shown: { text: "", thinking: "", isThinking: false, chunks: {} },
    nodes: {}, order: [], visits: [], records: [], calls: [], pauses: [], downloads: [], spoken: [],
    status: "starting", error: "", usage: null, startMs: Date.now(), endMs: 0, checkpoint: "", feedback: null,
  };
}

/**
 * Return the turn after a frame.
 * @param {Turn} turn @param {{id: string, event: string, data: any}} frame @returns {Turn}
 */
export function fold(turn, frame) {
  if (frame.event === "end") return end(turn, frame.data);
  const { run_id: runId, session_id: sessionId, data } = frame.data;
  const next = { ...turn, runId, sessionId, lastId: frame.id || turn.lastId };
  const change = CHANGES[frame.event];
  return change ? change(next, data) : next;
}

/**
 * Return a turn that goes on with an answer to a form. What was shown before belongs to earlier messages.
 * @param {Turn} turn @param {string} text @returns {Turn}
 */
export function goOn(turn, text) {
  const { files, shown, downloads, spoken, status, error, usage, startMs, endMs, feedback } = newTurn("");
  return { ...turn, query: text, files, shown, downloads, spoken, status, error, usage, startMs, endMs, feedback };
}

/** @param {Turn} turn @returns {Turn} A turn that others follow. Of its open forms, the questions stay. */
export function settle(turn) {
  const text = turn.shown.text || readTips(turn.pauses);
  const status = ["waiting", "interrupted", "reconnecting"].includes(turn.status) ? "answered" : turn.status;
  return { ...turn, pauses: [], status, shown: { ...turn.shown, text } };
}

/**
 * Return the turns of stored messages, without their steps.
 * @param {any[]} messages @param {any[]} runs @returns {Turn[]}
 */
export function storedTurns(messages, runs) {
  const known = new Map(runs.map((run) => [run.id, run]));
  const continued = new Set(runs.map((run) => run.parent_run_id));
  /** @type {Turn[]} */
  const turns = [];
  for (const message of messages) {
    const run = known.get(message.run_id);
    const last = turns.at(-1);
    const stepsOf = run ? playerOf(run, runs) : message.run_id ?? "";
    const isSame = stepsOf && last?.stepsOf === stepsOf; // also after copies of copies
    const isPart = last?.runId === message.run_id || (isCopy(run) && run.parent_run_id === last?.runId);
    const isOfLast = last?.runId && (isSame || isPart);
    const player = known.get(stepsOf) ?? run;
    const formRuns = formRunsOf(stepsOf, runs);
    const isQuestion = message.role === "user";
    const turn = isOfLast && !isQuestion ? last : newTurn("", message.files);
    if (turn !== last) turns.push(turn);
    Object.assign(turn, {
      runId: message.run_id ?? "", status: !run || continued.has(run.id) ? "answered" : run.status, usage: player?.usage ?? null,
      startMs: player?.start_ms ?? 0, endMs: player && !isCopy(player) ? player.end_ms : 0, checkpoint: run?.checkpoint ?? "",
      stepsOf, formRuns: formRuns.map(({ id }) => id),
      nodeCount: [...formRuns, player].reduce((sum, each) => sum + (each?.nodes ?? 0), 0),
    });
    if (turn.status !== "answered") turn.error = run.error;
    if (isQuestion) turn.query = message.content;
    else {
      turn.shown.text += withoutThinking(message.content);
      turn.shown.chunks = { ...turn.shown.chunks, ...citedChunks(message) };
      turn.feedback = message.feedback ?? null;
      turn.isDemo ||= message.demo;
    }
  }
  return turns.filter((turn) => turn.query || turn.files.length || turn.shown.text);
}

/**
 * Return the last turn of a stored session, and the turns before it.
 * @param {any} stored @param {any} run Its last run. @param {any[]} runs
 * @param {Turn | null} since The turn of which the run is a part.
 * @returns {{turn: Turn, earlier: Turn[], isFollowed: boolean}} `isFollowed`: the events of the run say the rest.
 */
export function reopen(stored, run, runs, since) {
  const isFollowed = run?.status === "running" || Boolean(since && run && run.id !== since.runId);
  const own = stored.messages.filter((/** @type {any} */ message) => run && message.run_id === run.id);
  const answer = own.find((/** @type {any} */ message) => message.role === "assistant");
  const taken = answer && run.status === "interrupted" ? [] : own; // only the rest of the answer is to come
  const pauses = isFollowed ? [] : stored.pauses;
  const question = taken.find((/** @type {any} */ message) => message.role === "user");
  const turn = {
    ...goOn(since ?? newTurn(""), question?.content ?? ""), files: question?.files ?? [],
    runId: run?.id ?? "", sessionId: stored.id, lastId: "", pauses, ...(since ? {} : { startMs: run?.start_ms || Date.now() }),
  };
  const earlier = storedTurns(stored.messages.filter((/** @type {any} */ message) => !taken.includes(message)), runs);
  if (isFollowed || !run) return { turn, earlier, isFollowed };
  const ended = end(turn, { run: { ...run, pauses, answer: taken.includes(answer) ? answer.content : "" }, error: null });
  const chunks = taken.includes(answer) ? citedChunks(answer) : {};
  const feedback = answer?.feedback ?? null;
  const stepsOf = since ? "" : playerOf(run, runs);
  const formRuns = formRunsOf(stepsOf, runs).map(({ id }) => id);
  return { turn: { ...ended, feedback, shown: { ...ended.shown, chunks }, stepsOf, formRuns }, earlier, isFollowed };
}

/** @param {any[]} pauses @returns {string} What the server stores as the text of a turn that only shows forms. */
function readTips(pauses) {
  return pauses.map((pause) => pause.tips).filter(Boolean).join("\n\n");
}

/** @param {string} answer @param {any[]} pauses @returns {boolean} Whether it says only what the forms ask, in any order. */
function isOfForms(answer, pauses) {
  return !pauses.reduce((rest, { tips }) => rest.replace(tips, ""), answer).trim();
}

/** @type {Record<string, (turn: Turn, data: any) => Turn>} */
const CHANGES = {
  workflow_started: (turn, data) => ({ ...turn, status: "running", isDemo: Boolean(data?.demo) }),
  node_started: (turn, data) => {
    const known = turn.nodes[data.component_id];
    return withNode(beginVisit(turn, data), data.component_id, {
      id: data.component_id, title: data.component_name || data.component_id, type: data.component_type, status: "running",
      visits: (known?.visits ?? 0) + 1, seconds: 0, inputs: null, outputs: null, error: "", startedAt: data.created_at,
    });
  },
  node_finished: (turn, data) => {
    const known = turn.nodes[data.component_id];
    return withNode(endVisit(turn, data), data.component_id, {
      id: data.component_id, title: data.component_name || data.component_id, type: data.component_type,
      status: endOf(data), visits: known?.visits ?? 1, seconds: data.elapsed_time ?? 0,
      inputs: data.inputs, outputs: data.outputs, error: data.error ?? "", startedAt: known?.startedAt ?? data.created_at,
    });
  },
  message: (turn, data) => {
    if (data.audio_binary) return { ...turn, spoken: [...turn.spoken, data.audio_binary] };
    const shown = { ...turn.shown };
    if (data.start_to_think) shown.isThinking = true;
    else if (data.end_to_think) shown.isThinking = false;
    else if (shown.isThinking) shown.thinking += data.content ?? "";
    else shown.text += data.content ?? "";
    return { ...turn, shown };
  },
  message_reset: (turn, data) => ({
    ...turn, shown: { ...turn.shown, text: withoutThinking(data.content ?? ""), thinking: "", isThinking: false },
  }),
  message_end: (turn, data) => ({
    ...turn,
    downloads: [...turn.downloads, ...(data.downloads ?? []), ...(data.attachment?.doc_id ? [data.attachment] : [])],
    shown: { ...turn.shown, isThinking: false, chunks: { ...turn.shown.chunks, ...data.reference?.chunks } },
  }),
  agent_record: (turn, data) => recordCall({ ...turn, records: [...turn.records, data] }, data),
};

/** @param {Turn} turn @param {any} data @returns {Turn} The event has whole seconds; the end of the node is exact. */
function beginVisit(turn, data) {
  const [now, given] = [Date.now(), data.created_at * 1000];
  const visit = {
    node: data.component_id, title: data.component_name || data.component_id, type: data.component_type,
    startMs: now - given > 2000 ? given : now, seconds: 0, error: "", status: /** @type {"running"} */ ("running"),
  };
  const repeated = turn.visits.findIndex((other) => other.node === visit.node && other.isRepeated);
  if (repeated >= 0) {
    return { ...turn, visits: turn.visits.map((other, at) => (at === repeated ? { ...other, isRepeated: false } : other)) };
  }
  const before = turn.visits.findLastIndex((other) => other.node === visit.node);
  if (turn.visits[before]?.status !== "waiting") return { ...turn, visits: [...turn.visits, visit] };
  return { ...turn, visits: turn.visits.map((other, at) => (at === before ? visit : other)) }; // it goes on
}

/**
 * Return a turn that another run continues: nodes that ran begin again, and Messages that were not complete.
 * @param {Turn} turn @param {number} ended The length of the text of complete Messages.
 * @param {boolean} [isRepeated] Whether the events of the nodes that have finished come once more. @returns {Turn}
 */
export function cut(turn, ended, isRepeated = false) {
  const visits = turn.visits.map((visit) => (visit.status === "running"
    ? { ...visit, status: /** @type {"waiting"} */ ("waiting") } : { ...visit, isRepeated: isRepeated && visit.status !== "waiting" }));
  return { ...turn, visits, shown: { ...turn.shown, text: turn.shown.text.slice(0, ended), thinking: "", isThinking: false } };
}

/** @param {Turn} turn @param {any} data @returns {Turn} */
function endVisit(turn, data) {
  const at = turn.visits.findIndex((visit) => visit.node === data.component_id && visit.status === "running");
  if (at < 0) return turn;
  const visits = [...turn.visits];
  visits[at] = {
    ...visits[at], startMs: data.created_at * 1000, seconds: data.elapsed_time ?? 0, error: data.error ?? "",
    status: endOf(data), inputs: data.inputs, outputs: data.outputs,
  };
  return { ...turn, visits };
}

/** @param {any} data @returns {Status} How a node has ended. */
function endOf(data) {
  return data.error === STOPPED ? "stopped" : data.error ? "failed" : "done";
}

/** @param {Turn} turn @param {string} id @param {NodeState} state @returns {Turn} */
function withNode(turn, id, state) {
  const order = id in turn.nodes ? turn.order : [...turn.order, id];
  return { ...turn, order, nodes: { ...turn.nodes, [id]: state } };
}

/** @param {Turn} turn @param {any} data @returns {Turn} */
function recordCall(turn, data) {
  if (!String(data.kind).startsWith("tool_")) return turn;
  const id = [data.path, data.visit, data.caller, data.iteration, data.step, data.position].join("|");
  const status = data.kind === "tool_finished" ? "done" : data.kind === "tool_failed" ? "failed" : "running";
  const known = turn.calls.find((call) => call.id === id);
  const call = {
    id, node: data.component_id, path: data.path, tool: data.tool, title: data.title || data.tool,
    arguments: data.arguments ?? known?.arguments, result: data.result, error: data.error ?? "",
    seconds: data.seconds ?? 0, status,
  };
  const calls = known ? turn.calls.map((each) => (each.id === id ? call : each)) : [...turn.calls, call];
  return { ...turn, calls: /** @type {Call[]} */ (calls) };
}

/** @param {Turn} turn @param {{run: any, error: any}} data @returns {Turn} */
function end(turn, { run, error }) {
  const nodes = { ...turn.nodes };
  const pauses = run?.pauses ?? [];
  for (const pause of pauses) {
    const known = nodes[pause.node];
    nodes[pause.node] = { ...(known ?? emptyNode(pause.node)), status: "waiting" };
  }
  const status = run?.status ?? "interrupted";
  for (const [id, node] of Object.entries(nodes)) {
    const isCut = node.status === "running" ? status !== "running" : node.status === "waiting" && status === "cancelled";
    if (isCut) nodes[id] = { ...node, status: status === "waiting" ? "waiting" : status === "cancelled" ? "stopped" : "failed" };
  }
  const shown = { ...turn.shown, isThinking: false };
  if (!shown.text && run?.answer && !isOfForms(run.answer, pauses)) shown.text = withoutThinking(run.answer);
  const visits = turn.visits.map((visit) => (visit.status === "running" && status !== "running"
    ? { ...visit, status: nodes[visit.node].status, seconds: Math.max(0, (Date.now() - visit.startMs) / 1000) } : visit));
  return {
    ...turn, nodes, visits, shown, pauses, status, runId: run?.id ?? turn.runId, sessionId: run?.session_id ?? turn.sessionId,
    error: run?.error || error?.message || "", usage: run?.usage ?? null, startMs: run?.start_ms || turn.startMs,
    endMs: run?.end_ms || Date.now(),
    checkpoint: run?.checkpoint ?? "", isDemo: run ? Boolean(run.demo) : turn.isDemo,
  };
}

/** @param {string} id @returns {NodeState} */
function emptyNode(id) {
  return {
    id, title: id, type: id.split(":")[0], status: "waiting", visits: 1, seconds: 0, inputs: null, outputs: null,
    error: "", startedAt: 0,
  };
}

/** @param {string} text @returns {string} The text outside of thinking sections. */
export function withoutThinking(text) {
  return text.replace(/<think>[\s\S]*?<\/think>/g, "");
}
