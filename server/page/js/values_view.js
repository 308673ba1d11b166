/** The values of a conversation at its stored steps: what each has changed, the whole state, and other values for a fork. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { Problem } from "./own_words.js";
import { fromText, toText } from "./shown_values.js";
import { t } from "./texts.js";

/** What the user has written: the one value of the engine that its readers look for. */
const QUESTION = "sys.query";
/** The output with the branch that a node has taken. */
const BRANCH = "@_next";
/** @type {Record<string, string>} */
const BADGES = { added: "wasAdded", changed: "wasChanged", removed: "wasRemoved" };

/**
 * @typedef {import("./step_words.js").Step} Step
 * @typedef {{canFork: boolean, onFork: (step: Step, changes: Record<string, any>, goesOn: boolean) => void}} Forking
 */

/**
 * Show the step that is chosen, with a slider over all steps of the turn.
 * @param {{steps: Step[], chosen: string, onChoose: (checkpoint: string) => void, load: (step: Step) => Promise<any>,
 *   titleOf: (node: string) => string, forking?: Forking, Difference?: any, more?: () => void}} props `Difference` shows how
 *   a text has changed; `more` loads older steps.
 */
export function ValuesView({ steps, chosen, onChoose, load, titleOf, forking, Difference, more }) {
  const found = steps.findIndex(({ checkpoint }) => checkpoint === chosen);
  const at = found < 0 ? Math.max(steps.findLastIndex(({ after }) => after.length), steps.length ? 0 : -1) : found;
  const step = steps[at];
  return html`<section class="values" aria-label=${t("values")}>
    ${!step && html`<p class="hint">${t("noSteps")}</p>`}
    ${step && html`<${StepSlider} steps=${steps} at=${at} onChoose=${onChoose} />
      <${MomentView} key=${step.checkpoint} step=${step} load=${load} titleOf=${titleOf} forking=${forking}
        Difference=${Difference} />`}
    ${more && html`<p><button type="button" onClick=${more}>${t("olderSteps")}</button></p>`}
  </section>`;
}

/** @param {{steps: Step[], at: number, onChoose: (checkpoint: string) => void}} props */
export function StepSlider({ steps, at, onChoose }) {
  const step = steps[at];
  if (!step) return null;
  const go = (/** @type {number} */ to) => steps[to] && onChoose(steps[to].checkpoint);
  return html`<div class="slider">
    <button type="button" class="icon-button" aria-label=${t("stepBefore")} disabled=${at === 0} onClick=${() => go(at - 1)}>
      <${Icon} name="chevron-left" /></button>
    <input type="range" min="0" max=${steps.length - 1} value=${at} aria-label=${t("step")} aria-valuetext=${step.label}
      onInput=${(/** @type {any} */ event) => go(Number(event.target.value))} />
    <button type="button" class="icon-button" aria-label=${t("stepAfter")} disabled=${at === steps.length - 1}
      onClick=${() => go(at + 1)}><${Icon} name="chevron-right" /></button>
    <p class="step-name"><b>${step.label}</b> <span class="hint">${t("step")} ${at + 1} / ${steps.length}
      ${step.next.length > 0 && ` · ${t("nextNode")} ${step.next.map(({ title }) => title).join(", ")}`}</span></p>
  </div>`;
}

/**
 * @param {{step: Step, load: (step: Step) => Promise<any>, titleOf: (node: string) => string, forking?: Forking,
 *   Difference?: any}} props
 */
function MomentView({ step, load, titleOf, forking, Difference }) {
  const [moment, setMoment] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const [edits, setEdits] = useState(/** @type {Record<string, string>} */ ({}));
  const [wanted, setWanted] = useState("");
  useEffect(() => {
    let isCurrent = true;
    load(step).then((found) => isCurrent && setMoment(found), (error) => isCurrent && setProblem(error.message));
    return () => { isCurrent = false; };
  }, [step.checkpoint]);
  if (problem) return html`<${Problem} text=${problem} />`;
  if (!moment) return html`<p class="working" role="status">${t("loading")}</p>`;

  const before = Object.fromEntries(moment.variables.map((/** @type {any} */ one) => [one.name, one.value]));
  const changes = Object.fromEntries(Object.entries(edits).map(([name, text]) => [name, fromText(text, before[name])]));
  const edit = (/** @type {string} */ name) => (/** @type {string | null} */ text) => setEdits(withEdit(edits, name, text));
  const isOwn = (/** @type {any} */ one) => one.name.startsWith("sys.") && one.name !== QUESTION;
  const changed = moment.variables.filter((/** @type {any} */ one) => one.change !== "same");
  const rest = moment.variables.filter((/** @type {any} */ one) => one.change === "same"
    && `${nameOf(one.name, titleOf)} ${toText(one.value)}`.toLowerCase().includes(wanted.trim().toLowerCase()));
  /** The nodes that have taken a branch: an edit of what they gave does not change it. */
  const branching = moment.variables.flatMap((/** @type {any} */ { name }) =>
    (name.endsWith(BRANCH) ? name.slice(0, -BRANCH.length) : []));
  const list = (/** @type {any[]} */ rows) => rows.map((one) => html`<${Variable} key=${one.name} variable=${one}
    title=${nameOf(one.name, titleOf)} branchOf=${branching.find((/** @type {string} */ node) => one.name.startsWith(`${node}@`)) ?? ""}
    text=${edits[one.name]} onEdit=${forking && edit(one.name)} Difference=${Difference} />`);
  return html`<div class="moment">
    ${forking && html`<div class="row">
      <button type="button" class=${Object.keys(edits).length ? "primary" : ""} disabled=${!forking.canFork || !step.next.length}
        onClick=${() => forking.onFork(step, changes, true)}><${Icon} name="play" />
        ${t(Object.keys(edits).length ? "rerunChanged" : "rerunHere")}</button>
      <button type="button" disabled=${!forking.canFork} onClick=${() => forking.onFork(step, changes, false)}>
        <${Icon} name="git-branch" /> ${t("fork")}</button></div>`}
    <h3>${t("changesHere")}</h3>
    ${!changed.length && html`<p class="hint">${t("noChanges")}</p>`}
    ${list(changed.filter((/** @type {any} */ one) => !isOwn(one)))}
    <${Folded} rows=${changed.filter(isOwn)} list=${list} />
    <details class="whole"><summary>${t("wholeState")} (${moment.variables.length})</summary>
      <input type="search" placeholder=${t("searchValues")} aria-label=${t("searchValues")} value=${wanted}
        onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} />
      ${list(rest.filter((/** @type {any} */ one) => !isOwn(one)))}
      ${wanted.trim() ? list(rest.filter(isOwn)) : html`<${Folded} rows=${rest.filter(isOwn)} list=${list} />`}
      ${moment.left_out > 0 && html`<p class="hint">${t("leftOut")} ${moment.left_out}</p>`}</details>
  </div>`;
}

/** @param {{rows: any[], list: (rows: any[]) => any}} props Values of the engine. */
function Folded({ rows, list }) {
  if (!rows.length) return null;
  return html`<details class="own"><summary>${t("systemValues")} (${rows.length})</summary>${list(rows)}</details>`;
}

/** @param {string} name @param {(node: string) => string} titleOf @returns {string} A variable in the words of its reader. */
export function nameOf(name, titleOf) {
  const at = name.lastIndexOf("@");
  return at < 0 ? name : `${titleOf(name.slice(0, at))} · ${name.slice(at + 1)}`;
}

/** @param {Record<string, string>} edits @param {string} name @param {string | null} text @returns {Record<string, string>} */
function withEdit(edits, name, text) {
  const others = Object.entries(edits).filter(([other]) => other !== name);
  return Object.fromEntries(text === null ? others : [...others, [name, text]]);
}

/**
 * @param {{variable: any, title: string, branchOf: string, text: string | undefined, onEdit?: (text: string | null) => void,
 *   Difference?: any}} props `branchOf`: its node, if that has taken a branch.
 */
function Variable({ variable, title, branchOf, text, onEdit, Difference }) {
  const { name, value, change, before, is_whole: isWhole } = variable;
  const id = `variable-${name}`;
  const box = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const isEdited = useRef(text !== undefined);
  useEffect(() => {
    if (text !== undefined && !isEdited.current) box.current?.focus();
    isEdited.current = text !== undefined;
  }, [text === undefined]);
  const isText = Difference && change === "changed" && typeof value === "string" && typeof before === "string";
  return html`<article class="variable" data-change=${change}>
    <header>${text === undefined ? html`<b title=${name}>${title}</b>` : html`<label for=${id} title=${name}><b>${title}</b></label>`}
      ${BADGES[change] && html`<span class="badge">${t(BADGES[change])}</span>`}
      ${onEdit && change !== "removed" && !name.endsWith(BRANCH) && (text === undefined
        ? html`<button type="button" class="icon-button" onClick=${() => onEdit(isWhole ? toText(value) : "")}
            aria-label=${`${t("editValue")}: ${title}`} title=${t("editValue")}><${Icon} name="pencil" /></button>`
        : html`<button type="button" onClick=${() => onEdit(null)}>${t("cancel")}</button>`)}</header>
    ${text !== undefined
      ? html`<textarea ref=${box} id=${id} rows=${Math.min(12, 2 + text.split("\n").length)} value=${text}
          onInput=${(/** @type {any} */ e) => onEdit?.(e.target.value)}></textarea>
          ${!isWhole && html`<p class="hint">${t("notWhole")}</p>`}
          ${branchOf && html`<p class="hint">${t("branchStays")}</p>`}`
      : isText
        ? html`<${Difference} before=${before} after=${value} />`
        : html`${(change === "changed" || change === "removed") && html`<pre tabindex="0"><del>${toText(before)}</del></pre>`}
          ${change !== "removed" && html`<pre tabindex="0">${toText(value)}</pre>`}`}
  </article>`;
}
