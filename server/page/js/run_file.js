/** The page of a run file: a stored session, step by step, from the data in the page. It sends no request. */

import { html, render, useMemo, useState } from "../vendor/preact.js";
import { Graph } from "./graph.js";
import { Markdown } from "./markdown.js";
import { NodePanel } from "./panels.js";
import { stateAt, titleOf, turnAt } from "./record.js";
import { RunLog } from "./run_log.js";
import { switchLanguage, t } from "./texts.js";
import { withoutThinking } from "./turn.js";

/** @typedef {import("./record.js").SessionRecord} SessionRecord */

const VIEWS = ["graph", "log", "state"];

/** @param {{record: SessionRecord}} props */
function RunFile({ record }) {
  const last = Math.max(0, record.steps.length - 1);
  const [at, setAt] = useState(last);
  const [side, setSide] = useState("graph");
  const [node, setNode] = useState("");
  const [language, setLanguage] = useState(0);
  const read = useMemo(() => async (/** @type {string} */ theme) => record.drawings[theme] ?? "", [record]);
  const turn = useMemo(() => turnAt(record, at), [record, at]);
  return html`<div class="page run-file" data-language=${language}>
    <header class="top">
      <h1>${record.session.title} · ${record.session.name}</h1>
      <span class="space"></span>
      <label class="row">${t("step")} ${at + 1} / ${last + 1}
        <input type="range" min="0" max=${last} value=${at}
          onInput=${(/** @type {any} */ event) => setAt(Number(event.target.value))} /></label>
      <button onClick=${() => { switchLanguage(); setLanguage(language + 1); }}>${t("language")}</button>
    </header>
    <div class="workspace">
      <${Moments} record=${record} at=${at} onGo=${setAt} />
      <${Conversation} record=${record} at=${at} turn=${turn} />
      <div class="side">
        <nav class="row" role="tablist">${VIEWS.map((view) => html`<button role="tab" aria-selected=${side === view}
          onClick=${() => setSide(view)}>${t(view)}</button>`)}</nav>
        <div class=${side === "graph" ? "" : "hidden"}>
          <${Graph} read=${read} turn=${turn} selected=${node} onSelect=${setNode} /></div>
        ${side === "log" && html`<${RunLog} turn=${turn} onSelect=${setNode} />`}
        ${side === "state" && html`<${State} record=${record} at=${at} />`}
        ${node && html`<${NodePanel} turn=${turn} node=${node} canRerun=${false} onRerun=${() => undefined}
          onClose=${() => setNode("")} />`}
      </div>
    </div>
  </div>`;
}

/** @param {{record: SessionRecord, at: number, onGo: (at: number) => void}} props */
function Moments({ record, at, onGo }) {
  const { steps } = record;
  return html`<nav class="sessions" aria-label=${t("timeline")}>
    <p class="hint">${t("removed")}
      ${record.values_cut > 0 ? ` ${record.values_cut.toLocaleString()} ${t("valuesCut")}` : ""}
      ${record.steps_left_out > 0 ? ` ${record.steps_left_out.toLocaleString()} ${t("stepsLeftOut")}` : ""}</p>
    <ol class="moments">${steps.map((step, index) => html`
      ${step.turn !== steps[index - 1]?.turn && html`<li><h2>${t("turn")} ${step.turn}</h2></li>`}
      <li data-depth=${step.namespace ? 1 : 0}><button aria-current=${index === at} onClick=${() => onGo(index)}>
        <time>${new Date(step.at_ms).toLocaleTimeString()}${step.region
          ? ` · ${titleOf(record, step.region)}${step.round === null || !step.next.length ? "" : ` ${t("round")} ${step.round + 1}`}` : ""}</time>
        ${step.next.length ? `→ ${step.next.map((id) => titleOf(record, id)).join(", ")}` : "■"}</button></li>`)}</ol>
  </nav>`;
}

/** @param {{record: SessionRecord, at: number, turn: import("./turn.js").Turn}} props */
function Conversation({ record, at, turn }) {
  const known = record.steps.slice(0, at + 1).findLast((step) => !step.namespace)?.history ?? 0;
  return html`<section class="chat" aria-label=${t("sessions")}><div class="messages">
    ${record.history.map((message) => {
      const text = asText(record.values[message.text]);
      return html`<article class=${`message ${message.role} ${message.at < known ? "" : "later"}`} key=${message.at}>
        ${message.role === "user" ? html`<p class="plain">${text}</p>` : html`<${Markdown} text=${withoutThinking(text)} />`}
      </article>`;
    })}
    <p class="hint" role="status">${t(turn.status)}</p>
    ${turn.error && html`<p class="problem">${turn.error}</p>`}
  </div></section>`;
}

/** @param {{record: SessionRecord, at: number}} props */
function State({ record, at }) {
  return html`<section class="panel state" aria-label=${t("state")}>
    ${stateAt(record, at).map(({ title, entries }) => html`<h3>${title}</h3>${entries.map(({ name, value, isChanged }) =>
      html`<details key=${name} open=${isChanged}><summary>${name} ${isChanged && html`<mark>${t("changed")}</mark>`}</summary>
        <pre tabindex="0">${asText(value)}</pre></details>`)}`)}
  </section>`;
}

/** @param {any} value @returns {string} */
function asText(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
}

const [root, data] = [document.getElementById("app"), document.getElementById("record")];
if (root && data) render(html`<${RunFile} record=${JSON.parse(data.textContent ?? "")} />`, root);
