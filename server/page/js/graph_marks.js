/** What a turn shows in its graph: the states of nodes and tools, the rounds of loops, and the edges that were taken. */

import { t } from "./texts.js";

const ENDS = new Set(["succeeded", "failed", "cancelled"]);

/**
 * @param {import("./graph_view.js").GraphView} view @param {import("./turn.js").Turn | null} turn @param {string} selected
 */
export function markGraph(view, turn, selected) {
  const rounds = turn ? countRounds(view, turn) : new Map();
  const isOver = Boolean(turn?.order.length && ENDS.has(turn.status));
  for (const box of view.boxes.values()) {
    const status = turn?.nodes[box.id]?.status ?? (isOver ? "skipped" : "");
    set(box.element, "data-status", status);
    set(box.element, "data-selected", box.id === selected ? "true" : "");
    set(box.element, "aria-label", `${turn?.nodes[box.id]?.title ?? box.id}${status ? `: ${t(status)}` : ""}`);
    const counter = box.element.querySelector("[data-rounds]");
    const text = rounds.has(box.id) ? `${t("round")} ${rounds.get(box.id)}` : "";
    if (counter && counter.textContent !== text) counter.textContent = text;
    for (const tool of box.element.querySelectorAll("[data-tool]")) markTool(tool, box.id, turn);
  }
  for (const place of view.frame.parentElement?.querySelectorAll("[data-place]") ?? []) {
    set(place, "data-status", turn?.nodes[place.getAttribute("data-place") ?? ""]?.status ?? "");
  }
  for (const { path, from, to } of view.edges) set(path, "data-taken", turn && isTaken(turn, from, to) ? "true" : "");
}

/** @param {Element} element @param {string} name @param {string} value Nothing is painted again if nothing changes. */
function set(element, name, value) {
  if ((element.getAttribute(name) ?? "") === value) return;
  if (value) element.setAttribute(name, value);
  else element.removeAttribute(name);
}

/** @param {Element} tool @param {string} node @param {import("./turn.js").Turn | null} turn */
function markTool(tool, node, turn) {
  const name = tool.getAttribute("data-tool");
  const calls = turn?.calls.filter((call) => call.node === node && (call.title === name || call.tool === name)) ?? [];
  const running = calls.find((call) => call.status === "running");
  set(tool, "data-status", (running ?? calls.at(-1))?.status ?? "");
}

/**
 * Return the rounds of each Loop and Iteration: how often its body has begun since it began itself.
 * @param {import("./graph_view.js").GraphView} view @param {import("./turn.js").Turn} turn @returns {Map<string, number>}
 */
function countRounds(view, turn) {
  /** @type {Map<string, Map<string, number>>} */
  const counts = new Map();
  for (const { node, type } of turn.visits) {
    if (counts.has(node) || view.boxes.get(node)?.element.querySelector("[data-rounds]")) counts.set(node, new Map());
    const body = counts.get(view.boxes.get(node)?.parent ?? "");
    if (body && !type.endsWith("Item")) body.set(node, (body.get(node) ?? 0) + 1); // an item also runs to end the rounds
  }
  const rounds = new Map();
  for (const [node, body] of counts) if (body.size) rounds.set(node, Math.max(...body.values()));
  return rounds;
}

/**
 * Return whether a turn has gone from a node to another one. A router says where it goes; other nodes go everywhere.
 * @param {import("./turn.js").Turn} turn @param {string} from @param {string} to @returns {boolean}
 */
function isTaken(turn, from, to) {
  const [source, target] = [turn.nodes[from], turn.nodes[to]];
  if (!source || !target || source.status === "waiting") return false;
  const next = source.outputs?._next;
  return Array.isArray(next) ? next.includes(to) : true;
}
