/** The rows of the run log: nodes, the model rounds of their agents, and the calls of each round. No DOM. */

import { t } from "./texts.js";

/**
 * One row. `startMs` is 0 if it is not known; `within` names the agents between the node and the row.
 * @typedef {{key: string, kind: "node"|"round"|"call", level: number, within: string, title: string, node: string,
 *   startMs: number, seconds: number, tokens: number, status: string, error: string}} Row
 */

const MAX_LEVEL = 6;

/** @param {import("./turn.js").Turn} turn @returns {Row[]} Parents before their parts, in the order of their times. */
export function logRows(turn) {
  /** @type {Row[]} */
  const rows = turn.visits.map((visit, at) => ({
    key: `n${at}`, kind: "node", level: 0, within: "", title: visit.title || visit.node, node: visit.node, startMs: visit.startMs,
    seconds: visit.seconds, tokens: 0, status: visit.status, error: visit.error,
  }));
  const parts = [...readRecords(turn.records).values()];
  if (!turn.records.length) parts.push(...turn.calls.map(callRow));
  /** @type {Map<Row, Row[]>} */
  const owned = new Map();
  for (const part of parts) {
    const owner = ownerOf(rows, part);
    if (owner) owned.set(owner, [...(owned.get(owner) ?? []), part]);
  }
  for (const row of rows) {
    for (const part of owned.get(row) ?? []) if (part.kind === "round") row.tokens += part.tokens;
  }
  return rows.flatMap((row) => [row, ...(owned.get(row) ?? []).sort((a, b) => a.startMs - b.startMs)]);
}

/** @param {Row[]} rows @param {Row} part @returns {Row | undefined} The visit in which a part began. */
function ownerOf(rows, part) {
  const visits = rows.filter((row) => row.node === part.node);
  const slack = 1000; // while a node runs, its own time is that of this browser's clock
  return visits.findLast((row) => !part.startMs || row.startMs <= part.startMs + slack) ?? visits[0];
}

/** @param {import("./turn.js").Call} call @returns {Row} */
function callRow(call) {
  return {
    key: `c${call.id}`, kind: "call", level: 1, within: inner(call.path), title: call.title, node: call.node, startMs: 0,
    seconds: call.seconds, tokens: 0, status: call.status, error: call.error,
  };
}

/** @param {any[]} records @returns {Map<string, Row>} One row for the records of each round and each call. */
function readRecords(records) {
  /** @type {Map<string, Row>} */
  const rows = new Map();
  for (const record of records) {
    const [kind, state] = String(record.kind).split("_");
    if ((kind !== "iteration" && kind !== "tool") || !state) continue;
    const isCall = kind === "tool";
    const place = [record.path, record.visit, record.caller, record.iteration];
    const key = (isCall ? [kind, ...place, record.step, record.position] : [kind, ...place]).join("|");
    const seconds = Number(record.seconds) || 0;
    const depth = String(record.path ?? "").split("-->").length - 1;
    const usage = record.usage ?? {};
    rows.set(key, {
      key, kind: isCall ? "call" : "round", level: Math.min(MAX_LEVEL, 2 * depth + (isCall ? 2 : 1)),
      within: inner(record.path), title: isCall ? record.title || record.tool : `${t("modelRound", { number: record.iteration })} · ${record.model}`,
      node: record.component_id, seconds, tokens: (usage.prompt_tokens ?? 0) + (usage.completion_tokens ?? 0),
      startMs: rows.get(key)?.startMs ?? record.created_at * 1000 - seconds * 1000,
      status: state === "started" ? "running" : state === "failed" ? "failed" : "done", error: record.error ?? "",
    });
  }
  return rows;
}

/** @param {string} path @returns {string} The agents between a node and its part, as `Researcher › `. */
function inner(path) {
  return String(path ?? "").split("-->").slice(1).map((name) => `${name} › `).join("");
}
