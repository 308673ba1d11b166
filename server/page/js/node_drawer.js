/** The drawer of a node: what can be done with it, how it went, and what it read, gave and asked its models. */

import { html } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { Costs, ModelCalls } from "./model_calls.js";
import { OwnWords } from "./own_words.js";
import { toText } from "./shown_values.js";
import { Calls } from "./steps.js";
import { t } from "./texts.js";

/**
 * Show a node of a turn. `visit` is one of its executions, from 0, or -1 for the last one.
 * @param {{turn: import("./turn.js").Turn | null, node: string, visit: number, titleOf: (node: string) => string,
 *   stored: import("./run_facts.js").RunNodes, onVisit: (visit: number) => void, onClose: () => void, onValues: () => void,
 *   tool?: any, actions?: {label: string, icon: string, isOn?: boolean, onSelect: () => void}[]}} props `stored` is what the
 *   server knows; `onValues` shows the stored values.
 */
export function NodeDrawer({ turn, node, visit, titleOf, stored, onVisit, onClose, onValues, tool, actions = [] }) {
  const played = turn?.visits.filter((each) => each.node === node) ?? [];
  const kept = stored.visits.filter((each) => each.node === node);
  const count = Math.max(played.length, kept.length, turn?.nodes[node]?.visits ?? 0);
  const at = visit < 0 || visit >= count ? count - 1 : visit;
  const whole = turn?.nodes[node];
  const own = played[at] ?? whole;
  const isLast = at === count - 1;
  const inputs = own?.inputs ?? (isLast ? whole?.inputs : null);
  const outputs = own?.outputs ?? (isLast ? whole?.outputs : null);
  const calls = turn?.calls.filter((call) => call.node === node) ?? [];
  const asked = stored.calls.filter((call) => call.node === node);
  const title = whole?.title || kept[0]?.title || titleOf(node);
  return html`<aside class="panel drawer" aria-label=${title}>
    <header><h2>${title}</h2>
      <button type="button" class="icon-button" onClick=${onClose} aria-label=${t("close")}><${Icon} name="x" /></button></header>
    ${actions.length > 0 && html`<div class="row" role="group" aria-label=${t("nodeActions")}>${actions.map((action) => html`
      <button type="button" key=${action.label} aria-pressed=${action.isOn} onClick=${action.onSelect}>
        <${Icon} name=${action.icon} /> ${action.label}</button>`)}</div>`}
    ${tool}
    <p class="hint">${own && t(own.status)} <${VisitCosts} visit=${own} kept=${kept[at]} />${own && node !== title && " · "}
      ${node !== title && html`<code>${node}</code>`}</p>
    ${count > 1 && html`<p class="visits"><button type="button" class="icon-button" aria-label=${t("visitBefore")} disabled=${at === 0}
        onClick=${() => onVisit(at - 1)}><${Icon} name="chevron-left" /></button>
      ${t("visit")} ${at + 1} / ${count}
      <button type="button" class="icon-button" aria-label=${t("visitAfter")} disabled=${isLast} onClick=${() => onVisit(at + 1)}>
        <${Icon} name="chevron-right" /></button></p>`}
    ${!own && !kept.length && html`<p>${t(turn?.isEventless && !turn.visits.length ? "noVisits" : "notRun")}</p>`}
    ${own?.error?.trim() && html`<h3>${t("error")}</h3><pre tabindex="0" class="problem"><${OwnWords} text=${own.error} /></pre>`}
    ${kept[at]?.notices?.map((/** @type {string} */ notice) => html`<p class="hint">${notice}</p>`)}
    ${turn?.isEventless && own && html`<p class="hint">${t(outputs ? "noInputs" : "noInputsOutputs")}${" "}
      <button type="button" onClick=${onValues}>${t("showValues")}</button></p>`}
    <${Values} title=${t("inputs")} values=${inputs} /><${Values} title=${t("outputs")} values=${outputs} />
    ${calls.length > 0 && html`<${Calls} calls=${calls} />`}
    <${ModelCalls} calls=${asked} dropped=${stored.dropped_calls} />
  </aside>`;
}

/** @param {any} values @returns {Record<string, any>} The values that are not the engine's own. */
export function shownOf(values) {
  return Object.fromEntries(Object.entries(values ?? {}).filter(([name]) => !name.startsWith("_")));
}

/** @param {{title: string, values: any}} props */
function Values({ title, values }) {
  const shown = Object.entries(shownOf(values));
  if (!shown.length) return null;
  return html`<section><h3>${title}</h3>${shown.map(([name, value]) =>
    html`<details open><summary>${name}</summary><pre tabindex="0">${toText(value)}</pre></details>`)}</section>`;
}

/** @param {{visit: any, kept: any}} props */
function VisitCosts({ visit, kept }) {
  const seconds = kept?.seconds ?? (visit?.status === "running" ? undefined : visit?.seconds);
  return html`<${Costs} seconds=${seconds} attempts=${kept?.attempts} usage=${kept?.usage} />`;
}
