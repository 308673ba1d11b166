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
    const facts = status && turn ? factsOf(turn, box.id) : "";
    set(box.element, "aria-label", `${box.element.querySelector("text")?.textContent ?? box.id}${status ? `: ${t(status)}` : ""}${facts ? `, ${facts}` : ""}`);
    const visit = turn?.visits.findLast((each) => each.node === box.id && each.status === "running");
    showState(box, status, facts, visit?.startMs);
    const counter = box.element.querySelector("[data-rounds]");
    const text = rounds.has(box.id) ? t("round", { number: rounds.get(box.id) }) : "";
    if (counter && counter.textContent !== text) counter.textContent = text;
    for (const tool of box.element.querySelectorAll("[data-tool]")) markTool(tool, box.id, turn);
  }
  const current = turn && (findNode(turn, "running") || findNode(turn, "waiting") || findNode(turn, "failed"));
  if (current) view.follow(current);
  countSeconds(view);
  for (const place of view.frame.parentElement?.querySelectorAll("[data-place]") ?? []) {
    set(place, "data-status", turn?.nodes[place.getAttribute("data-place") ?? ""]?.status ?? "");
  }
  for (const { path, from, to } of view.edges) set(path, "data-taken", turn && isTaken(turn, from, to) ? "true" : "");
}

/** @param {import("./turn.js").Turn} turn @param {string} status @returns {string} The last node with a status, or "". */
function findNode(turn, status) {
  return turn.order.findLast((id) => turn.nodes[id].status === status) ?? "";
}

/** @param {import("./turn.js").Turn} turn @param {string} id @returns {string} What a node has taken, as "1.2 s · 42 tokens". */
function factsOf(turn, id) {
  const { status, seconds, visits } = turn.nodes[id] ?? {};
  const { rounds, tokens } = countModelWork(turn, id);
  const parts = status === "running" || !seconds ? [] : [`${seconds.toFixed(seconds < 10 ? 1 : 0)} ${t("seconds")}`];
  if (tokens) parts.push(`${tokens.toLocaleString()} ${t("tokens")}`);
  else if (status === "running" && rounds > 1) parts.push(t("modelRound", { number: rounds }));
  if (visits > 1) parts.push(`×${visits}`);
  return parts.join(" · ");
}

/** @param {import("./turn.js").Turn} turn @param {string} id @returns {{rounds: number, tokens: number}} */
function countModelWork(turn, id) {
  let [rounds, tokens] = [0, 0];
  for (const { kind, component_id: node, iteration, usage } of turn.records) {
    if (node !== id) continue;
    if (kind === "iteration_started") rounds = Math.max(rounds, Number(iteration) || 0);
    tokens += (usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0);
  }
  return { rounds, tokens };
}

/** The signs of the states, drawn around the middle of a circle. A node that runs has an arc, which turns. */
const SIGNS = {
  running: "M0,-6 A6,6 0 1 1 -6,0", done: "M-4,0 L-1,3.5 L4.5,-3.5", failed: "M-3.5,-3.5 L3.5,3.5 M3.5,-3.5 L-3.5,3.5",
  waiting: "M-2.5,-4 V4 M2.5,-4 V4",
};
const SIGN_SIZE = 10;

/** @param {import("./graph_view.js").Box} box @param {string} status @param {string} facts @param {number} [since] */
function showState(box, status, facts, since) {
  let state = box.element.querySelector(":scope > .state");
  const sign = SIGNS[/** @type {keyof typeof SIGNS} */ (status)];
  if (!sign) return state?.remove();
  if (!state) {
    state = document.createElementNS(box.element.namespaceURI, "g");
    state.classList.add("state");
    state.setAttribute("transform", `translate(${box.x + box.width}, ${box.y})`);
    for (const name of ["circle", "path", "text"]) state.append(document.createElementNS(box.element.namespaceURI, name));
    box.element.append(state);
  }
  const [circle, path, text] = state.children;
  set(circle, "r", String(SIGN_SIZE));
  set(path, "d", sign);
  set(text, "x", String(-SIGN_SIZE - 4));
  set(text, "y", "-7");
  set(text, "data-facts", facts);
  if (status !== "running") write(text, facts);
  set(state, "data-since", status === "running" ? String(since ?? Date.now()) : "");
  return undefined;
}

/** Write the seconds of the nodes that run. @param {import("./graph_view.js").GraphView} view */
export function countSeconds(view) {
  for (const state of view.svg.querySelectorAll(".state[data-since]")) {
    const text = state.children[2];
    const seconds = Math.floor((Date.now() - Number(state.getAttribute("data-since"))) / 1000);
    const facts = text.getAttribute("data-facts");
    write(text, `${seconds} ${t("seconds")}${facts ? ` · ${facts}` : ""}`);
  }
}

/** @param {Element} element @param {string} text */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
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
