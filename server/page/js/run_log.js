/** The run log of a turn: its nodes, rounds and calls over time, with tokens and errors; and the files to download. */

import { html, useState } from "../vendor/preact.js";
import { logRows } from "./log_rows.js";
import { t } from "./texts.js";

const MAX_ROWS = 1000;

/** @param {{turn: import("./turn.js").Turn | null, onSelect: (node: string) => void}} props */
export function RunLog({ turn, onSelect }) {
  if (!turn) return html`<section class="panel" aria-label=${t("log")}></section>`;
  const rows = logRows(turn);
  const timed = rows.filter((row) => row.startMs);
  const start = Math.min(...timed.map((row) => row.startMs));
  const end = Math.max(...timed.map((row) => row.startMs + row.seconds * 1000), start + 1);
  const { usage } = turn;
  const tokens = usage ? usage.prompt_tokens + usage.completion_tokens : 0;
  return html`<section class="panel" aria-label=${t("log")}>
    <p class="hint">${t(turn.status)}
      ${turn.endMs ? ` · ${((turn.endMs - turn.startMs) / 1000).toFixed(2)} ${t("seconds")}` : ""}
      ${tokens ? ` · ${tokens.toLocaleString()} ${t("tokens")}` : ""}${usage?.cost ? ` · ${usage.cost.toFixed(4)}` : ""}</p>
    <ol class="log">${rows.slice(0, MAX_ROWS).map((row) => html`<${LogRow} key=${row.key} row=${row} start=${start}
      length=${end - start} onSelect=${onSelect} />`)}</ol>
    ${rows.length > MAX_ROWS && html`<p class="hint">${(rows.length - MAX_ROWS).toLocaleString()} ${t("cutRows")}</p>`}
  </section>`;
}

/** @param {{row: import("./log_rows.js").Row, start: number, length: number, onSelect: (node: string) => void}} props */
function LogRow({ row, start, length, onSelect }) {
  const width = Math.min(100, Math.max(0.6, ((row.seconds * 1000) / length) * 100));
  const from = Math.min(100 - width, Math.max(0, ((row.startMs - start) / length) * 100));
  const title = row.within + (row.kind === "round" ? `${t("modelRound")} ${row.title}` : row.title);
  const time = `${row.seconds.toFixed(2)} ${t("seconds")}`;
  return html`<li data-kind=${row.kind} data-level=${row.level} data-status=${row.status}>
    <button onClick=${() => onSelect(row.node)} title=${title}>${title}</button>
    ${row.startMs
      ? html`<svg viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${`${time}, ${t(row.status)}`}>
          <rect x=${from} width=${width} height="6"></rect></svg>`
      : html`<span></span>`}
    <span class="number">${time}</span>
    <span class="number">${row.tokens ? `${row.tokens.toLocaleString()} ${t("tokens")}` : ""}</span>
    ${row.error && html`<p class="problem">${row.error}</p>`}
  </li>`;
}

/**
 * Offer the events of the turn's run, and the session as a run file.
 * @param {{api: import("./api.js").Api, agent: string, session: string, turn: import("./turn.js").Turn | null}} props
 */
export function Downloads({ api, agent, session, turn }) {
  const [problem, setProblem] = useState("");
  const events = async () => {
    const lines = [];
    const path = api.path(agent, `runs/${turn?.runId}/events?records=true`);
    for await (const frame of api.frames(path, {})) lines.push(`${JSON.stringify({ id: frame.id, event: frame.event, ...frame.data })}\n`);
    save(`${turn?.runId}.jsonl`, new Blob(lines, { type: "application/jsonl" }));
  };
  const runFile = async () => {
    const response = await api.open(api.path(agent, `sessions/${session}/run-file`));
    save(`${session}.html`, await response.blob());
  };
  const start = (/** @type {() => Promise<void>} */ work) => {
    setProblem("");
    work().catch((error) => setProblem(error.status === 410 ? t("eventsGone") : error.message));
  };
  const isOver = Boolean(turn && !["running", "starting", "reconnecting"].includes(turn.status));
  return html`<div class="panel">
    <div class="row">
      <button disabled=${!turn?.runId || !isOver} onClick=${() => start(events)}>${t("download")}: ${t("events")}</button>
      <button disabled=${!session} onClick=${() => start(runFile)}>${t("download")}: ${t("runFile")}</button>
    </div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
  </div>`;
}

/** @param {string} name @param {Blob} blob */
function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
