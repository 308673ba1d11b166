/** Forms: of UserFillUp, which wait for an answer, and of Begin, which belong to the message. */

import { html, useState } from "../vendor/preact.js";
import { Markdown } from "./markdown.js";
import { t } from "./texts.js";

/**
 * Show one field of a form.
 * @param {{name: string, field: any, value: any, problem?: string, onChange: (value: any) => void}} props
 */
export function Field({ name, field, value, problem, onChange }) {
  const label = field.name || name;
  const kind = field.type;
  const shared = { id: `field-${name}`, name, "aria-invalid": problem ? "true" : undefined };
  let input;
  if (kind === "options" || (field.options?.length && kind !== "boolean")) {
    input = html`<select ...${shared} value=${value ?? ""} onChange=${(/** @type {any} */ e) => onChange(e.target.value)}>
      <option value=""></option>
      ${field.options.map((/** @type {any} */ option) => html`<option value=${String(option)}>${String(option)}</option>`)}
    </select>`;
  } else if (kind === "boolean") {
    input = html`<input ...${shared} type="checkbox" checked=${Boolean(value)}
      onChange=${(/** @type {any} */ e) => onChange(e.target.checked)} />`;
  } else if (kind === "paragraph") {
    input = html`<textarea ...${shared} rows="4" value=${value ?? ""}
      onInput=${(/** @type {any} */ e) => onChange(e.target.value)}></textarea>`;
  } else {
    const isNumber = kind === "integer" || kind === "number";
    input = html`<input ...${shared} type=${isNumber ? "number" : "text"} step=${kind === "integer" ? "1" : "any"}
      value=${value ?? ""} required=${!field.optional}
      onInput=${(/** @type {any} */ e) => onChange(readNumber(e.target.value, isNumber))} />`;
  }
  return html`<div class="field">
    <label for=${`field-${name}`}>${label}${field.optional ? "" : " *"}</label>${input}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
  </div>`;
}

/** @param {string} text @param {boolean} isNumber @returns {any} */
function readNumber(text, isNumber) {
  return isNumber && text !== "" ? Number(text) : text;
}

/** @param {Record<string, any>} fields @returns {Record<string, any>} The values that a form begins with. */
export function initialValues(fields) {
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [name, field.value ?? (field.type === "boolean" ? false : "")]));
}

/**
 * Show an open form with its button.
 * @param {{pause: any, problems: Record<string, string>, isBusy: boolean, onAnswer: (id: string, values: any) => void}} props
 */
export function PauseForm({ pause, problems, isBusy, onAnswer }) {
  const [values, setValues] = useState(() => initialValues(pause.fields));
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const given = Object.entries(values).filter(([name, value]) => value !== "" || !pause.fields[name].optional);
    onAnswer(pause.id, Object.fromEntries(given));
  };
  return html`<form class="pause" onSubmit=${submit} aria-label=${pause.node}>
    ${pause.tips && html`<${Markdown} text=${pause.tips} />`}
    ${Object.entries(pause.fields).map(([name, field]) => html`<${Field} key=${name} name=${name} field=${field}
      value=${/** @type {any} */ (values)[name]} problem=${problems[name]}
      onChange=${(/** @type {any} */ value) => setValues((/** @type {any} */ all) => ({ ...all, [name]: value }))} />`)}
    <button class="primary" disabled=${isBusy}>${t("answer")}</button>
  </form>`;
}
