/** The drawer of a node: how it went, its prompts, itself alone, and its params in a draft. */

import { html } from "../vendor/preact.js";
import { Calls } from "./steps.js";
import { DraftEditor } from "./draft_editor.js";
import { Costs, ModelCalls } from "./model_calls.js";
import { NodeAlone } from "./node_alone.js";
import { changedNodes } from "./drafts.js";
import { useRunNodes } from "./run_facts.js";
import { toText } from "./shown_values.js";
import { t } from "./texts.js";

/**
 * Show a node of the turn, or of the last run of a stored conversation.
 * @param {{api: import("./api.js").Api, agent: string, turn: import("./turn.js").Turn | null, runId: string, node: string,
 *   draft: import("./drafts.js").Draft | null, canRerun: boolean, onClose: () => void, onDraft: (dsl: any) => void,
 *   onRerun: (node: string, dsl?: any) => void, onSaved: () => void}} props
 */
export function NodeDrawer({ api, agent, turn, runId, node, draft, canRerun, onClose, onDraft, onRerun, onSaved }) {
  const state = turn?.nodes[node];
  const stored = useRunNodes(api, agent, runId, `${turn?.status}${turn?.checkpoint}`);
  const visits = stored.visits.filter((visit) => visit.node === node);
  const order = turn?.order.length ? turn.order : [...new Set(stored.visits.map((visit) => visit.node))];
  const calls = turn?.calls.filter((call) => call.node === node) ?? [];
  const title = state?.title || visits[0]?.title || node;
  const hasRun = Boolean(state || visits.length);
  const dsl = draft && changedNodes(draft).length ? draft.dsl : null;
  return html`<aside class="panel drawer" aria-label=${title}>
    <header><h2>${title}</h2><button onClick=${onClose} aria-label=${t("close")}>×</button></header>
    <p class="hint">${node}${state ? ` · ${t(state.status)}` : ""} <${NodeCosts} state=${state} visits=${visits} /></p>
    ${!hasRun && html`<p>${t("notRun")}</p>`}
    ${hasRun && canRerun && html`<button onClick=${() => onRerun(node)}>${t("rerun")}</button>`}
    ${state?.error && html`<h3>${t("error")}</h3><pre tabindex="0" class="problem">${state.error}</pre>`}
    ${calls.length > 0 && html`<${Calls} calls=${calls} />`}
    <${Values} title=${t("inputs")} values=${state?.inputs} /><${Values} title=${t("outputs")} values=${state?.outputs} />
    <${ModelCalls} calls=${stored.calls.filter((call) => call.node === node)} dropped=${stored.dropped_calls} />
    <${NodeAlone} key=${`alone-${node}`} api=${api} agent=${agent} node=${node} runId=${runId} inputs=${shownOf(state?.inputs)}
      dsl=${dsl} />
    ${draft && html`<${DraftEditor} key=${`draft-${node}`} api=${api} agent=${agent} node=${node} draft=${draft} order=${order}
      canRerun=${canRerun} onDraft=${onDraft} onRerun=${onRerun} onSaved=${onSaved} />`}
  </aside>`;
}

/** @param {any} values @returns {Record<string, any>} The values that are not the engine's own. */
function shownOf(values) {
  return Object.fromEntries(Object.entries(values ?? {}).filter(([name]) => !name.startsWith("_")));
}

/** @param {{title: string, values: any}} props */
function Values({ title, values }) {
  const shown = Object.entries(shownOf(values));
  if (!shown.length) return null;
  return html`<h3>${title}</h3>${shown.map(([name, value]) =>
    html`<details open><summary>${name}</summary><pre tabindex="0">${toText(value)}</pre></details>`)}`;
}

/** @param {{state: import("./turn.js").NodeState | undefined, visits: any[]}} props */
function NodeCosts({ state, visits }) {
  const usage = visits.reduce((sum, { usage: one }) => ({
    prompt_tokens: sum.prompt_tokens + one.prompt_tokens, completion_tokens: sum.completion_tokens + one.completion_tokens,
    cost: sum.cost + one.cost,
  }), { prompt_tokens: 0, completion_tokens: 0, cost: 0 });
  const attempts = Math.max(1, ...visits.map((visit) => visit.attempts));
  const seconds = visits.length ? visits.reduce((sum, visit) => sum + visit.seconds, 0) : state?.seconds;
  const count = Math.max(visits.length, state?.visits ?? 0);
  return html`<${Costs} seconds=${seconds} attempts=${attempts} usage=${usage} />${count > 1 ? ` · ×${count}` : ""}`;
}
