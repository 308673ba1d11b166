/** The params and prompts of a node, edited in a draft. The stored canvas stays as it is until the draft is saved. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { changedNodes, explain, readNode, withParams } from "./drafts.js";
import { Problem } from "./own_words.js";
import { SchemaFields } from "./schema_form.js";
import { isSame } from "./shown_values.js";
import { t } from "./texts.js";

/**
 * Show the form of a node, and what can be done with the draft.
 * @param {{api: import("./api.js").Api, node: string, draft: import("./drafts.js").Draft, newest: any,
 *   order: string[], titleOf: (node: string) => string, canRerun: boolean, onDraft: (dsl: any) => void,
 *   onRerun: (node: string, dsl: any) => void, onSave: () => Promise<void>}} props `newest` is the agent's newest canvas.
 */
export function DraftEditor({ api, node, draft, newest, order, titleOf, canRerun, onDraft, onRerun, onSave }) {
  const [component, setComponent] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const [isSaving, setSaving] = useState(false);
  const [notice, setNotice] = useState("");
  const [form, setForm] = useState(0);
  const known = readNode(draft.dsl, node);
  const name = known?.component ?? "";

  useEffect(() => {
    let isCurrent = true;
    setComponent(null);
    setProblem("");
    if (name) {
      api.request(`native/v1/components/${encodeURIComponent(name)}`)
        .then((found) => isCurrent && setComponent(found), (error) => isCurrent && setProblem(error.message));
    }
    return () => { isCurrent = false; };
  }, [api, name]);

  const save = async () => {
    setSaving(true);
    setProblem("");
    try {
      await onSave();
      setNotice("saved");
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    } finally {
      setSaving(false);
    }
  };
  const discard = () => {
    onDraft(draft.base);
    setForm(form + 1);
  };
  if (!known) return html`<p class="hint">${t("noDraft")}</p>`;
  const changed = changedNodes(draft);
  const isNew = changedNodes({ base: newest ?? draft.base, dsl: draft.dsl }).length > 0;
  return html`<section class="tool" aria-label=${t("editDraft")}>
    <p class="hint">${t("editHint")}</p>
    ${component && html`<${ParamsForm} key=${`${node}-${form}`} component=${component} params=${known.params}
      onChange=${(/** @type {any} */ params) => onDraft(withParams(draft.dsl, node, params))} />`}
    ${changed.length > 0 && html`<${Meaning} draft=${draft} node=${node} order=${order} titleOf=${titleOf} />`}
    <div class="row">
      ${canRerun && order.includes(node) && html`<button class="primary" disabled=${!changed.length}
        onClick=${() => onRerun(node, draft.dsl)}>${t("rerunDraft")}</button>`}
      <button disabled=${!isNew || isSaving} onClick=${save}>${t("saveDraft")}</button>
      <button disabled=${!changed.length} onClick=${discard}>${t("discardDraft")}</button>
    </div>
    ${isNew && !changed.length && html`<p class="hint">${t("otherVersion")}</p>`}
    ${notice && !isNew && html`<p role="status">${t(notice)}</p>`}
    <${Problem} text=${problem} />
  </section>`;
}

/**
 * @param {{draft: import("./drafts.js").Draft, node: string, order: string[], titleOf: (node: string) => string}} props
 */
function Meaning({ draft, node, order, titleOf }) {
  const { again, kept } = explain(draft, node, order);
  return html`<div class="meaning" role="status"><p>${t("draftChanges")}</p><ul>
    ${again.map((id) => html`<li>${titleOf(id)}: ${t(order.includes(id) || id === node ? "runsAgain" : "mayRun")}</li>`)}
    ${kept.map((id) => html`<li>${titleOf(id)}: ${t("keepsResult")}</li>`)}</ul></div>`;
}

/** @param {{component: any, params: any, onChange: (params: any) => void}} props */
function ParamsForm({ component, params, onChange }) {
  const schema = component.params_schema;
  const names = Object.keys(schema.properties ?? {});
  const help = Object.fromEntries(component.parameters.map((/** @type {any} */ one) => [one.name, one]));
  const rank = (/** @type {string} */ name) =>
    help[name]?.type === "text with references" ? 0 : !isSame(params[name] ?? null, schema.properties[name].default ?? null) ? 1 : 2;
  const own = names.filter((name) => !component.common.includes(name));
  const main = own.filter((name) => rank(name) === 0 || name in params);
  const more = [...own.filter((name) => !main.includes(name)), ...names.filter((name) => component.common.includes(name))];
  const fields = (/** @type {string[]} */ chosen) => html`<${SchemaFields} id="params" names=${chosen} schema=${schema}
    definitions=${schema.$defs ?? {}} value=${params} help=${help} onChange=${onChange} />`;
  return html`<form onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
    ${fields([...main].sort((one, other) => rank(one) - rank(other)))}
    <details><summary>${t("moreParams")}</summary>${fields(more)}</details></form>`;
}
