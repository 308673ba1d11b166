/** The record in a run file: its steps, and what they say about a turn. No DOM. */

import { NO_NODES } from "./run_facts.js";
import { readSteps } from "./step_words.js";
import { newTurn } from "./turn.js";

/**
 * @typedef {{id: string, namespace: string, region: string | null, round: number | null, turn: number, at_ms: number,
 *   bytes: number, next: string[], waiting: string[], record: Record<string, number>, usage: number[],
 *   references: Record<string, number>, globals: Record<string, number>,
 *   outputs: Record<string, Record<string, number>>, history: number}} Step
 * @typedef {{id: string, parent: string, status: string, error: string, model: string, start_ms: number, end_ms: number}} Run
 * @typedef {{format: number, session: {id: string, name: string, title: string}, drawings: Record<string, string>,
 *   nodes: Record<string, {title: string, type: string, parent: string}>, runs: Run[], steps: Step[],
 *   steps_left_out: number, history: {at: number, role: string, text: number}[], calls: any[],
 *   visits?: {run: string, node: string, at_ms: number, seconds?: number, usage?: number[]}[], values: any[],
 *   values_cut: number}} SessionRecord
 */

/** @param {SessionRecord} record @param {string} id @returns {string} */
export function titleOf(record, id) {
  return record.nodes[id]?.title ?? id;
}

/**
 * Return the turn of a step, as it was then.
 * @param {SessionRecord} record @param {number} at @returns {import("./turn.js").Turn}
 */
export function turnAt(record, at) {
  const { steps } = record;
  const number = steps[at]?.turn ?? 0;
  const turn = newTurn("");
  /** @type {Map<string, {step: Step, visits: Map<string, import("./turn.js").Visit>}>} */
  const open = new Map();
  for (const step of steps.slice(0, at + 1)) {
    if (step.turn !== number) continue;
    const before = open.get(step.namespace);
    for (const visit of before?.visits.values() ?? []) endVisit(record, turn, visit, step);
    const visits = new Map(step.next.map((id) => [id, beginVisit(record, turn, id, step)]));
    open.set(step.namespace, { step, visits });
    for (const id of step.waiting) if (turn.nodes[id]) turn.nodes[id].status = "waiting";
  }
  const run = runOf(record, steps[at]);
  addFollowers(record, turn, steps[at], run);
  turn.runId = run?.id ?? "";
  turn.sessionId = record.session.id;
  turn.startMs = steps.find((step) => step.turn === number)?.at_ms ?? 0;
  turn.endMs = steps[at]?.at_ms ?? 0;
  turn.status = statusAt(record, at);
  turn.error = turn.status === "failed" ? run?.error ?? "" : "";
  turn.calls = record.calls.filter((call) => runOf(record, steps[at])?.id === call.run).map((call, index) => ({
    id: String(index), node: call.node, path: call.path, tool: call.tool, title: call.tool, seconds: call.seconds,
    arguments: record.values[call.arguments], result: record.values[call.result], error: "", status: /** @type {"done"} */ ("done"),
  })).filter((call) => turn.nodes[call.node]);
  const [prompt, completion, , cost] = steps[at]?.usage ?? [];
  turn.usage = prompt === undefined ? null : { prompt_tokens: prompt, completion_tokens: completion, cost };
  return turn;
}

/**
 * Add the nodes that no step names, because they ran in the step of a node before them.
 * @param {SessionRecord} record @param {import("./turn.js").Turn} turn @param {Step | undefined} step
 * @param {Run | undefined} run
 */
function addFollowers(record, turn, step, run) {
  if (!step || !run) return;
  const named = new Set(turn.order);
  for (const { run: id, node, at_ms: at } of record.visits ?? []) {
    if (id === run.id && at <= step.at_ms && !named.has(node) && record.nodes[node])
      endVisit(record, turn, beginVisit(record, turn, node, { ...step, at_ms: at }), step);
  }
}

/** @param {SessionRecord} record @param {import("./turn.js").Turn} turn @param {string} id @param {Step} step */
function beginVisit(record, turn, id, step) {
  const { title, type } = record.nodes[id] ?? { title: id, type: "" };
  /** @type {import("./turn.js").Visit} */
  const visit = { node: id, title, type, startMs: step.at_ms, seconds: 0, error: "", status: "running" };
  turn.visits.push(visit);
  if (!turn.nodes[id]) turn.order.push(id);
  turn.nodes[id] = {
    id, title, type, status: "running", visits: (turn.nodes[id]?.visits ?? 0) + 1, seconds: 0, inputs: null, outputs: null,
    error: "", startedAt: step.at_ms / 1000,
  };
  return visit;
}

/**
 * @param {SessionRecord} record @param {import("./turn.js").Turn} turn @param {import("./turn.js").Visit} visit
 * @param {Step} step
 */
function endVisit(record, turn, visit, step) {
  const outputs = read(record, step.outputs[visit.node] ?? {});
  visit.seconds = Math.max(0, (step.at_ms - visit.startMs) / 1000);
  visit.error = outputs._ERROR ? String(outputs._ERROR) : "";
  visit.status = visit.error ? "failed" : "done";
  visit.outputs = outputs;
  const { status, seconds, error } = visit;
  Object.assign(turn.nodes[visit.node], { status, seconds, error, outputs });
}

/** @param {SessionRecord} record @param {Record<string, number>} entries @returns {Record<string, any>} */
function read(record, entries) {
  return Object.fromEntries(Object.entries(entries).map(([name, number]) => [name, record.values[number]]));
}

/** @param {SessionRecord} record @param {number} at @returns {Record<string, any>} What an answer may cite at a step. */
export function chunksAt(record, at) {
  return read(record, record.steps[at]?.references ?? {});
}

/** @param {SessionRecord} record @param {Step | undefined} step @returns {Run | undefined} The run that made a step. */
function runOf(record, step) {
  return record.runs.findLast((run) => step && run.start_ms <= step.at_ms);
}

/** @param {SessionRecord} record @param {number} at @returns {string} */
function statusAt(record, at) {
  const { steps, values } = record;
  const step = steps[at];
  if (!step) return "starting";
  if (step.waiting.length) return "waiting";
  const stored = values[step.record.status];
  const isLast = at === steps.length - 1 || steps.slice(at + 1).every((other) => other.turn !== step.turn);
  const run = runOf(record, step);
  if (isLast && run && (stored === "running" || !stored)) return run.status === "running" ? "interrupted" : run.status;
  return stored && !step.namespace && !step.next.length ? stored : "running";
}

/** @param {SessionRecord} record @returns {import("./step_words.js").Step[]} The steps in words. */
export function wordsOf(record) {
  const node = (/** @type {string} */ id) => ({ id, title: titleOf(record, id) });
  return readSteps(record.steps.map((step) => ({
    checkpoint: step.id, create_ms: step.at_ms, next: step.next.map(node), region: step.region ? node(step.region) : null,
    round: step.round,
  })));
}

/**
 * Return the turns, oldest first, each with its last step and its question.
 * @param {SessionRecord} record @returns {{runId: string, question: string, last: number, messages: SessionRecord["history"]}[]}
 */
export function turnsOf(record) {
  const { steps, history, values } = record;
  let known = 0;
  return [...new Set(steps.map(({ turn }) => turn))].map((number) => {
    const last = steps.findLastIndex(({ turn }) => turn === number);
    const own = steps.filter(({ turn, namespace }) => turn === number && !namespace);
    const end = Math.max(known, ...own.map((step) => step.history));
    const messages = history.filter(({ at }) => at < end && at >= known);
    known = end;
    const question = messages.find(({ role }) => role === "user");
    return { runId: String(number), question: question ? asText(values[question.text]) : "", last, messages };
  });
}

/** @param {any} value @returns {string} */
export function asText(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
}

/** @param {SessionRecord} record @param {string} runId @returns {import("./run_facts.js").RunNodes} */
export function nodesOf(record, runId) {
  const visits = (record.visits ?? []).filter(({ run }) => run === runId).map(({ node, at_ms, seconds, usage = [] }) => ({
    node, title: titleOf(record, node), start_ms: at_ms, seconds,
    usage: { prompt_tokens: usage[0] ?? 0, completion_tokens: usage[1] ?? 0, cost: usage[2] ?? 0 },
  }));
  return { ...NO_NODES, visits };
}

/**
 * Return the variables at a step, and what has changed since the step before it in the same place, as the server does.
 * @param {SessionRecord} record @param {number} at
 */
export function momentAt(record, at) {
  const step = record.steps[at];
  const before = record.steps.slice(0, at).findLast((other) => other.namespace === step.namespace);
  const flat = (/** @type {Step | undefined} */ one) => new Map([
    ...Object.entries(one?.globals ?? {}),
    ...Object.entries(one?.outputs ?? {}).flatMap(([id, outputs]) =>
      Object.entries(outputs).map(([name, number]) => /** @type {[string, number]} */ ([`${id}@${name}`, number]))),
  ]);
  const [now, then] = [flat(step), flat(before)];
  const variables = [...new Set([...now.keys(), ...then.keys()])].filter((name) => !/@_/.test(name)).map((name) => {
    const [number, old] = [now.get(name), then.get(name)];
    const change = number === undefined ? "removed" : !before || number === old ? "same" : old === undefined ? "added" : "changed";
    return {
      name, change, value: number === undefined ? null : record.values[number], is_whole: true,
      before: old === undefined ? null : record.values[old],
    };
  });
  return { variables, left_out: 0 };
}
