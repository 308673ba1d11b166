/** One stored step: its variables, what has changed, and other values for a fork. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { fromText, toText } from "./shown_values.js";
import { TextDiff } from "./text_diff.js";
import { t } from "./texts.js";

/** @type {Record<string, string>} */
const BADGES = { added: "wasAdded", changed: "wasChanged", removed: "wasRemoved" };

/**
 * Show the variables at a step, and the buttons that fork there.
 * @param {{api: import("./api.js").Api, agent: string, session: string, step: any, canFork: boolean,
 *   onFork: (step: any, changes: Record<string, any>, goesOn: boolean) => void}} props
 */
export function MomentView({ api, agent, session, step, canFork, onFork }) {
  const [moment, setMoment] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const [edits, setEdits] = useState(/** @type {Record<string, string>} */ ({}));
  const [isWhole, setWhole] = useState(false);
  useEffect(() => {
    let isCurrent = true;
    setMoment(null);
    setProblem("");
    setEdits({});
    api.request(api.path(agent, `sessions/${session}/history/${step.checkpoint}`))
      .then((found) => isCurrent && setMoment(found), (error) => isCurrent && setProblem(error.message));
    return () => { isCurrent = false; };
  }, [api, agent, session, step.checkpoint]);

  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!moment) return html`<p class="working">…</p>`;
  const changed = moment.variables.filter((/** @type {any} */ one) => one.change !== "same");
  const shown = isWhole ? moment.variables : changed;
  const before = Object.fromEntries(moment.variables.map((/** @type {any} */ one) => [one.name, one.value]));
  const changes = Object.fromEntries(Object.entries(edits).map(([name, text]) => [name, fromText(text, before[name])]));
  const count = Object.keys(edits).length;
  return html`<section class="moment" aria-label=${t("state")}>
    <div class="row"><label><input type="checkbox" checked=${isWhole}
      onChange=${(/** @type {any} */ e) => setWhole(e.target.checked)} /> ${t("wholeState")} (${moment.variables.length})</label></div>
    <p class="hint">${t("changesSince")} ${changed.length}</p>
    ${shown.map((/** @type {any} */ one) => html`<${Variable} key=${one.name} variable=${one} text=${edits[one.name]}
      onEdit=${(/** @type {string | null} */ text) => setEdits(withEdit(edits, one.name, text))} />`)}
    ${moment.left_out > 0 && html`<p class="hint">${t("leftOut")} ${moment.left_out}</p>`}
    <div class="row">
      <button class="primary" disabled=${!canFork || !step.next.length} onClick=${() => onFork(step, changes, true)}>
        ${t(count ? "rerunChanged" : "rerunHere")}</button>
      <button disabled=${!canFork} onClick=${() => onFork(step, changes, false)}>${t("fork")}</button>
    </div>
  </section>`;
}

/** @param {Record<string, string>} edits @param {string} name @param {string | null} text @returns {Record<string, string>} */
function withEdit(edits, name, text) {
  const others = Object.entries(edits).filter(([other]) => other !== name);
  return Object.fromEntries(text === null ? others : [...others, [name, text]]);
}

/** @param {{variable: any, text: string | undefined, onEdit: (text: string | null) => void}} props */
function Variable({ variable, text, onEdit }) {
  const { name, value, change, is_whole: isWhole } = variable;
  const id = `variable-${name}`;
  const isText = change === "changed" && typeof value === "string" && typeof variable.before === "string";
  return html`<article class="variable" data-change=${change}>
    <header><label for=${id}><b>${name}</b></label> <span class="badge">${BADGES[change] ? t(BADGES[change]) : ""}</span>
      ${change !== "removed" && (text === undefined
        ? html`<button onClick=${() => onEdit(isWhole ? toText(value) : "")} aria-label=${`${t("editValue")}: ${name}`}>${t("editValue")}</button>`
        : html`<button onClick=${() => onEdit(null)}>${t("cancel")}</button>`)}</header>
    ${text !== undefined
      ? html`<textarea id=${id} rows=${Math.min(12, 2 + text.split("\n").length)} value=${text}
          onInput=${(/** @type {any} */ e) => onEdit(e.target.value)}></textarea>
          ${!isWhole && html`<p class="hint">${t("notWhole")}</p>`}`
      : isText
        ? html`<${TextDiff} before=${variable.before} after=${value} />`
        : html`${(change === "changed" || change === "removed") && html`<pre tabindex="0" class="before"><del>${toText(variable.before)}</del></pre>`}
          ${change !== "removed" && html`<pre tabindex="0">${toText(value)}</pre>`}`}
  </article>`;
}
