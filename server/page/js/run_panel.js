/** The panel of a run: which turn, and its graph, its course and its values, each in a tab. */

import { html } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { t } from "./texts.js";

/** @typedef {"graph"|"run"|"values"} View */
const VIEWS = /** @type {View[]} */ (["graph", "run", "values"]);
/** @type {Record<View, string>} */
const ICONS = { graph: "git-branch", run: "history", values: "database" };

/**
 * Show the panel. Its graph stays as the reader has moved it, while another tab is open.
 * @param {{view: View, onView: (view: View) => void, turns: {runId: string, question: string}[], chosen: string,
 *   onChoose: (runId: string) => void, parts: Record<View, any>, tools?: any, above?: any, drawer?: any,
 *   extra?: {title: string, body: any} | null, onCloseExtra?: () => void}} props `tools` stand beside the tabs, `above`
 *   beside the turn. `extra` is what the menu has opened in the place of the tabs' content.
 */
export function RunPanel({ view, onView, turns, chosen, onChoose, parts, tools, above, drawer, extra, onCloseExtra }) {
  const press = (/** @type {KeyboardEvent} */ event) => {
    const at = VIEWS.indexOf(view);
    const isMirrored = getComputedStyle(/** @type {Element} */ (event.currentTarget)).direction === "rtl";
    /** @type {Record<string, number>} */
    const moves = { ArrowRight: isMirrored ? -1 : 1, ArrowLeft: isMirrored ? 1 : -1, Home: -at, End: VIEWS.length - 1 - at };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const next = VIEWS[(at + moves[event.key] + VIEWS.length) % VIEWS.length];
    onView(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  const shown = extra ? "" : view;
  return html`<div class="run-panel">
    <header class="panel-head">
      <div class="tabs" role="tablist" aria-label=${t("run")} onKeyDown=${press}>${VIEWS.map((each) => html`<button type="button"
        role="tab" id=${`tab-${each}`} aria-controls=${`part-${each}`} aria-selected=${shown === each}
        tabindex=${view === each ? 0 : -1} onClick=${() => onView(each)}><${Icon} name=${ICONS[each]} /> ${t(each)}</button>`)}</div>
      ${tools}
    </header>
    ${extra && html`<section class="extra" aria-label=${extra.title}><header><h2>${extra.title}</h2>
      <button type="button" class="icon-button" aria-label=${t("close")} onClick=${onCloseExtra}><${Icon} name="x" /></button></header>
      ${extra.body}</section>`}
    ${!extra && html`<${TurnPicker} turns=${turns} chosen=${chosen} onChoose=${onChoose} above=${above} />`}
    ${VIEWS.map((each) => (each === "graph" || shown === each) && html`<div class=${shown === each ? "part" : "part hidden"}
      key=${each} data-part=${each} role="tabpanel" id=${`part-${each}`} aria-labelledby=${`tab-${each}`}>${parts[each]}</div>`)}
    ${drawer}
  </div>`;
}

/** @param {{turns: {runId: string, question: string}[], chosen: string, onChoose: (runId: string) => void, above?: any}} props */
function TurnPicker({ turns, chosen, onChoose, above }) {
  if (!turns.length) return html`<p class="turn-picker hint">${t("askAndWatch")}</p>`;
  const name = (/** @type {number} */ number) => {
    const asked = turns.slice(0, number + 1).filter(({ question }) => question);
    const sign = turns[number].question || !asked.length ? "" : " ↳"; // it goes on with the turn before
    return t("turnOf", { number: Math.max(1, asked.length), question: (asked.at(-1)?.question ?? t("noQuestion")) + sign });
  };
  const at = turns.findIndex(({ runId }) => runId === chosen);
  return html`<div class="turn-picker">
    ${turns.length > 1
      ? html`<select aria-label=${t("turn")} value=${chosen} onChange=${(/** @type {any} */ event) => onChoose(event.target.value)}>
          ${turns.map(({ runId }, number) => html`<option key=${runId} value=${runId} selected=${runId === chosen}>
            ${name(number)}</option>`)}</select>`
      : html`<p class="turn-name">${name(Math.max(0, at))}</p>`}
    ${above}</div>`;
}
