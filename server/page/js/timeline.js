/** A turn over time: its nodes with what they gave, the model rounds and calls in them, and the steps of the engine. */

import { html } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { logRows } from "./log_rows.js";
import { OwnWords } from "./own_words.js";
import { countTokens, showCost, showSeconds, toText } from "./shown_values.js";
import { stepAfter } from "./step_words.js";
import { language, t } from "./texts.js";

const MAX_ROWS = 1000;
const MAX_GAVE = 200;

/** @type {Record<string, string>} */
export const MARKS = {
  running: "loader", done: "circle-check", failed: "circle-x", waiting: "form-input", stopped: "square", skipped: "circle-x",
};

/**
 * Show a turn. `stored` is what the server knows about its nodes, `titleOf` returns the title of a node.
 * @param {{turn: import("./turn.js").Turn, steps: import("./step_words.js").Step[], stored: import("./run_facts.js").RunNodes,
 *   titleOf: (node: string) => string, node: string, onNode: (node: string, visit: number) => void,
 *   onStep: (checkpoint: string) => void}} props
 */
export function Timeline({ turn, steps, stored, titleOf, node, onNode, onStep }) {
  const rows = logRows(turn);
  const timed = rows.filter((row) => row.startMs);
  const start = Math.min(...timed.map((row) => row.startMs));
  const end = Math.max(...timed.map((row) => row.startMs + row.seconds * 1000), start + 1);
  /** @type {Map<string, number>} */
  const counts = new Map();
  const shown = rows.slice(0, MAX_ROWS).map((row) => {
    if (row.kind === "node") counts.set(row.node, (counts.get(row.node) ?? -1) + 1);
    const visit = counts.get(row.node) ?? 0;
    const usage = row.kind === "node" ? stored.visits.filter((each) => each.node === row.node)[visit]?.usage : undefined;
    return { row, visit, usage, step: row.kind === "node" ? stepAfter(steps, row.node, visit) : undefined };
  });
  const named = new Set(shown.map(({ step }) => step?.checkpoint));
  const own = steps.filter(({ checkpoint }) => !named.has(checkpoint));
  return html`<section class="timeline" aria-label=${t("run")}>
    <${Total} turn=${turn} stored=${stored} />
    ${turn.isEventless && html`<p class="hint">${t("shownSteps")}</p>`}
    ${!rows.length && html`<p class="hint" role="status">
      ${t(turn.stepsOf ? "loadingSteps" : turn.status === "starting" ? "starting" : "noVisits")}</p>`}
    <ol class="visit-rows">${shown.map(({ row, visit, usage, step }) => html`<${TimelineRow} key=${row.key} row=${row} usage=${usage}
      gave=${row.kind === "node" ? gaveOf(turn.visits.filter((each) => each.node === row.node)[visit]?.outputs, titleOf,
        turn.shown.thinking) : ""}
      isChosen=${row.kind === "node" && row.node === node} start=${start} length=${end - start}
      onSelect=${() => onNode(row.node, visit)} onStep=${step && (() => onStep(step.checkpoint))} />`)}</ol>
    ${rows.length > MAX_ROWS && html`<p class="hint">${(rows.length - MAX_ROWS).toLocaleString()} ${t("cutRows")}</p>`}
    ${own.length > 0 && html`<details class="engine"><summary>${own.length} ${t(own.length === 1 ? "engineStep" : "engineSteps")}</summary>
      <ol>${own.map((step) => html`<li key=${step.checkpoint}><button type="button" onClick=${() => onStep(step.checkpoint)}>
        <span>${step.label}</span><time>${new Date(step.create_ms).toLocaleTimeString(language())}</time></button></li>`)}</ol></details>`}
  </section>`;
}

/** @param {{turn: import("./turn.js").Turn, stored: import("./run_facts.js").RunNodes}} props */
function Total({ turn, stored }) {
  const tokens = countTokens(turn.usage);
  const cost = turn.usage?.cost || stored.usage?.cost;
  const parts = [
    turn.endMs ? `${showSeconds(Math.max(0, turn.endMs - turn.startMs) / 1000)} ${t("seconds")}` : "",
    tokens ? `${tokens.toLocaleString()} ${t("tokens")}` : "",
    cost ? `${t("cost")} ${showCost(cost)}` : "",
  ].filter(Boolean);
  return html`<p class="total" data-status=${turn.status}><b>${t(turn.status)}</b>${parts.map((part) => ` · ${part}`)}</p>
    ${turn.error && html`<p class="problem"><${OwnWords} text=${turn.error} /></p>`}`;
}

/**
 * @param {{row: import("./log_rows.js").Row, usage: any, gave: string, isChosen: boolean, start: number, length: number,
 *   onSelect: () => void, onStep?: () => void}} props
 */
function TimelineRow({ row, usage, gave, isChosen, start, length, onSelect, onStep }) {
  const width = Math.min(100, Math.max(1.5, ((row.seconds * 1000) / length) * 100));
  const from = Math.min(100 - width, Math.max(0, ((row.startMs - start) / length) * 100));
  const title = row.within + row.title;
  const tokens = row.tokens || countTokens(usage);
  return html`<li data-kind=${row.kind} data-level=${row.level} data-status=${row.status}>
    <button type="button" class="line" aria-pressed=${isChosen} title=${gave ? `${title} → ${gave}` : title} onClick=${onSelect}>
      <span class="words"><span class="mark"><${Icon} name=${MARKS[row.status] ?? "circle-check"} label=${t(row.status)} /></span><b>${title}</b>${gave && html`<span class="gave"> → ${gave}</span>`}</span>
      <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        ${row.startMs > 0 && html`<rect x=${from} width=${width} height="6" rx="1"></rect>`}</svg>
      <span class="number">${row.status === "running" ? "" : `${showSeconds(row.seconds)} ${t("seconds")}`}</span>
      <span class="number">${tokens > 0 && `${tokens.toLocaleString()} ${t("tokens")}`}
        ${usage?.cost > 0 && html`<small>${t("cost")} ${showCost(usage.cost)}</small>`}</span>
    </button>
    ${onStep && html`<button type="button" class="icon-button" aria-label=${`${t("valuesAfter")} ${title}`} title=${t("valuesAfter")}
      onClick=${onStep}><${Icon} name="database" /></button>`}
    ${row.error.trim() && html`<p class="problem"><${OwnWords} text=${row.error} /></p>`}
  </li>`;
}

/**
 * Return what a node gave, in one line: where a router goes to, or the first value that is not the engine's own.
 * @param {any} outputs @param {(node: string) => string} titleOf
 * @param {string} [thinking] What a Message may begin with, as RAGFlow's do. @returns {string}
 */
function gaveOf(outputs, titleOf, thinking = "") {
  if (!outputs) return "";
  if (Array.isArray(outputs._next) && outputs._next.length) return outputs._next.map(titleOf).join(", ");
  const values = Object.entries(outputs).filter(([name, value]) =>
    !name.startsWith("_") && name !== "tips" && value !== null && value !== ""); // what a form asks is no result
  const text = values.map(([, value]) => value).find((value) => typeof value === "string") ?? values[0]?.[1];
  if (text === undefined) return "";
  const words = typeof text === "string" ? text : toText(text);
  return words.slice(thinking && words.startsWith(thinking) ? thinking.length : 0).replace(/<think>[\s\S]*?<\/think>/g, "").replace(/\*\*/g, "").replace(/\s+/g, " ").trim()
    .slice(0, MAX_GAVE);
}
