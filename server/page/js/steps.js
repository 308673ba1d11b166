/** The line of facts of an answer, which unfolds to its steps: nodes, model rounds, calls, thinking and sources. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { logRows } from "./log_rows.js";
import { Markdown } from "./markdown.js";
import { Problem } from "./own_words.js";
import { countTokens, showCost, toText } from "./shown_values.js";
import { t } from "./texts.js";

/** @type {Record<string, string>} */
const MARKS = { running: "loader", done: "check", failed: "circle-x", waiting: "form-input", stopped: "square" };
const MAX_ROWS = 200;

/** @param {import("./turn.js").Turn} turn @returns {boolean} Whether something of the turn is still to come. */
export function isOpen(turn) {
  return ["starting", "running", "reconnecting"].includes(turn.status);
}

/** @param {number} ms @returns {string} */
function showTime(ms) {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} ${t("seconds")}`;
}

/** @param {import("./turn.js").Turn} turn @returns {string} What is known of it in one line. */
function factsOf(turn) {
  const nodes = new Set(turn.visits.map((visit) => visit.node)).size || turn.nodeCount;
  const tokens = countTokens(turn.usage);
  return [
    nodes ? `${nodes} ${t(nodes === 1 ? "node" : "nodes")}` : "",
    turn.startMs && turn.endMs ? showTime(Math.max(0, turn.endMs - turn.startMs)) : "",
    tokens ? `${tokens.toLocaleString()} ${t("tokens")}` : "",
    turn.usage?.cost ? `${t("cost")} ${showCost(turn.usage.cost)}` : "",
  ].filter(Boolean).join(" · ");
}

/** @param {import("./turn.js").Turn} turn @returns {string} The titles of the nodes that run. */
function runningTitles(turn) {
  return turn.order.filter((id) => turn.nodes[id].status === "running").map((id) => turn.nodes[id].title).join(", ");
}

/** @param {{since: number}} props The time since then, which goes on. */
function Clock({ since }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return html`<span class="clock">${Math.max(0, Math.round((now - since) / 1000))} ${t("seconds")}</span>`;
}

/**
 * Show the line. It is open while the turn runs and has written nothing, until the reader folds or unfolds it.
 * @param {{turn: import("./turn.js").Turn, problem?: string, isChosen: boolean, onUnfold: () => void,
 *   onShowRun?: () => void, onCite: (chunk: any) => void}} props
 */
export function Facts({ turn, problem, isChosen, onUnfold, onShowRun, onCite }) {
  const [choice, setChoice] = useState(/** @type {boolean | null} */ (null));
  const isLive = isOpen(turn);
  const isUnfolded = choice ?? (isLive && !turn.shown.text);
  const facts = factsOf(turn);
  if (!isLive && !facts && !turn.shown.thinking) return null;
  const toggle = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!isUnfolded) onUnfold();
    setChoice(!isUnfolded);
  };
  return html`<details class="facts" open=${isUnfolded} data-live=${isLive} data-chosen=${isChosen}>
    <summary onClick=${toggle} title=${t("stepsOfAnswer")}><${Icon} name="chevron-right" />
      ${isLive
        ? html`<span class="live"><${Icon} name="loader" /> ${runningTitles(turn) || t("starting")} · <${Clock} since=${turn.startMs} /></span>`
        : html`<span>${facts || t("thinking")}</span>`}</summary>
    ${isUnfolded && html`<div class="facts-body">
      ${turn.stepsOf && !problem && html`<p class="hint" role="status">${t("loadingSteps")}</p>`}
      <${Problem} text=${problem} />
      ${turn.isEventless && html`<p class="hint">${t("shownSteps")}</p>`}
      <${StepList} turn=${turn} />
      <${Thinking} turn=${turn} />
      <${Sources} turn=${turn} onCite=${onCite} />
      ${onShowRun && turn.runId && html`<p><button type="button" class="quiet" aria-pressed=${isChosen} onClick=${onShowRun}>
        <${Icon} name="git-branch" /> ${t("showRun")}</button></p>`}</div>`}
  </details>`;
}

/** @param {{turn: import("./turn.js").Turn}} props */
function StepList({ turn }) {
  const rows = logRows(turn);
  const calls = new Map(turn.calls.flatMap((call) => [[`tool|${call.id}`, call], [`c${call.id}`, call]]));
  return html`<ol class="answer-steps">${rows.slice(0, MAX_ROWS).map((row) => {
    const call = calls.get(row.key);
    const title = row.within + row.title;
    const line = html`<${Mark} status=${row.status} /><span class="step-title">${title}</span>
      <span class="step-time">${row.status === "running" ? "" : `${row.seconds.toFixed(row.seconds < 10 ? 1 : 0)} ${t("seconds")}`}</span>`;
    return html`<li key=${row.key} data-kind=${row.kind} data-level=${row.level} data-status=${row.status}>
      ${call ? html`<details class="call"><summary>${line}</summary><${CallValues} call=${call} /></details>`
        : html`<div class="step-line">${line}</div>`}
      ${row.error.trim() && row.status === "failed" && html`<p class="step-error">${row.error}</p>`}</li>`;
  })}</ol>
  ${rows.length > MAX_ROWS && html`<p class="hint">${(rows.length - MAX_ROWS).toLocaleString()} ${t("cutRows")}</p>`}`;
}

/** @param {{status: string}} props */
function Mark({ status }) {
  return html`<span class="mark" data-status=${status}><${Icon} name=${MARKS[status] ?? "check"} label=${t(status)} /></span>`;
}

/** @param {{call: import("./turn.js").Call}} props */
function CallValues({ call }) {
  return html`<pre tabindex="0">${toText(call.arguments ?? null)}</pre>
    <pre tabindex="0">${call.error || toText(call.result ?? null)}</pre>`;
}

/** @param {{turn: import("./turn.js").Turn}} props What its models have thought, in their answer or between calls. */
function Thinking({ turn }) {
  const thoughts = turn.records.filter(({ kind }) => kind === "thought").map(({ text }) => text);
  const text = turn.shown.thinking || thoughts.join("\n\n");
  if (!text.trim()) return null;
  return html`<section class="thinking" aria-label=${t("thinking")}><h4><${Icon} name="brain" /> ${t("thinking")}</h4>
    <${Markdown} text=${text} /></section>`;
}

/** @param {{turn: import("./turn.js").Turn, onCite: (chunk: any) => void}} props */
function Sources({ turn, onCite }) {
  const chunks = new Map(Object.values(turn.shown.chunks).map((chunk) => [String(chunk.document_name ?? t("source")), chunk]));
  if (!chunks.size) return null;
  return html`<p class="sources"><${Icon} name="book-open" /> ${t("sources")}: ${[...chunks].map(([name, chunk]) => html`
    <button type="button" class="quiet" onClick=${() => onCite(chunk)}>${name}</button>`)}</p>`;
}

/** @param {{calls: import("./turn.js").Call[]}} props */
export function Calls({ calls }) {
  return html`<details class="calls"><summary>${t("calls")} (${calls.length})</summary>
    ${calls.map((call) => html`<details class="call" key=${call.id} data-status=${call.status}>
      <summary><b>${call.title}</b> ${t(call.status)}${call.seconds ? ` · ${call.seconds.toFixed(2)} ${t("seconds")}` : ""}</summary>
      <${CallValues} call=${call} /></details>`)}
  </details>`;
}
