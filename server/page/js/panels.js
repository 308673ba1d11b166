/** What stands beside the conversation, apart from the graph: a node and a source. */

import { html } from "../vendor/preact.js";
import { Calls } from "./steps.js";
import { Markdown } from "./markdown.js";
import { t } from "./texts.js";

/** @param {any} value @returns {string} */
function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/**
 * Show a node of the turn.
 * @param {{turn: import("./turn.js").Turn | null, node: string, canRerun: boolean, onClose: () => void,
 *   onRerun: (node: string) => void}} props
 */
export function NodePanel({ turn, node, canRerun, onClose, onRerun }) {
  const state = turn?.nodes[node];
  const calls = turn?.calls.filter((call) => call.node === node) ?? [];
  const shown = (/** @type {any} */ values) => Object.entries(values ?? {}).filter(([name]) => !name.startsWith("_"));
  return html`<aside class="panel" aria-label=${state?.title ?? node}>
    <header><h2>${state?.title ?? node}</h2><button onClick=${onClose} aria-label=${t("close")}>×</button></header>
    <p class="hint">${node}${state ? ` · ${t(state.status)} · ${state.seconds.toFixed(2)} ${t("seconds")}` : ""}
      ${state && state.visits > 1 ? ` · ×${state.visits}` : ""}</p>
    ${!state && html`<p>${t("notRun")}</p>`}
    ${state && canRerun && html`<button onClick=${() => onRerun(node)}>${t("rerun")}</button>`}
    ${state?.error && html`<h3>${t("error")}</h3><pre tabindex="0" class="problem">${state.error}</pre>`}
    ${calls.length > 0 && html`<${Calls} calls=${calls} />`}
    ${state?.inputs && html`<h3>${t("inputs")}</h3>${shown(state.inputs).map(([name, value]) =>
      html`<details open><summary>${name}</summary><pre tabindex="0">${pretty(value)}</pre></details>`)}`}
    ${state?.outputs && html`<h3>${t("outputs")}</h3>${shown(state.outputs).map(([name, value]) =>
      html`<details open><summary>${name}</summary><pre tabindex="0">${pretty(value)}</pre></details>`)}`}
  </aside>`;
}

/** @param {{chunk: any, onClose: () => void}} props */
export function SourcePanel({ chunk, onClose }) {
  return html`<aside class="panel" aria-label=${t("source")}>
    <header><h2>${chunk.document_name ?? t("source")}</h2><button onClick=${onClose} aria-label=${t("close")}>×</button></header>
    <${Markdown} text=${chunk.content ?? ""} />
  </aside>`;
}
