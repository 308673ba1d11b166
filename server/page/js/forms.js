/** Forms: of UserFillUp, which wait for an answer, and of Begin, which belong to the message. */

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { Expiry } from "./expiry.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { OwnWords } from "./own_words.js";
import { meaningOf, t } from "./texts.js";
import { readUnsent } from "./unsent.js";

/**
 * Return the place of a box that is as high as its text.
 * @param {string | null} text
 */
export function useGrowing(text) {
  const box = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useLayoutEffect(() => {
    const area = box.current;
    if (!area) return undefined;
    let width = 0;
    const grow = () => {
      width = area.clientWidth;
      area.style.height = "auto";
      area.style.height = `${area.scrollHeight + 2}px`; // the style sheet says how high at most
    };
    grow();
    const observer = new ResizeObserver(() => { // a box that was hidden has had no height
      if (area.clientWidth !== width) requestAnimationFrame(grow);
    });
    observer.observe(area);
    return () => observer.disconnect();
  }, [text]);
  return box;
}

/** Send what is typed in a box with Enter; with Shift it begins a line. */
export function sendWithEnter(/** @type {any} */ event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  event.target.form.requestSubmit();
}

/** @param {any} option @returns {string} The text that selects an option, as the server reads it. */
function optionText(option) {
  return String(option && typeof option === "object" ? option.value ?? option.label : option);
}

/**
 * Show one field of a form.
 * @param {{id: string, name: string, field: any, value: any, problem?: string, onChange: (value: any) => void}} props
 */
function Field({ id, name, field, value, problem, onChange }) {
  const label = field.name || name;
  const kind = String(field.type ?? "line").toLowerCase();
  const shared = {
    id, name, "aria-invalid": problem ? "true" : undefined, "aria-describedby": problem ? `${id}-problem` : undefined,
    required: !field.optional && kind !== "boolean",
  };
  const change = (/** @type {any} */ event) => onChange(event.target.value);
  let input;
  if (kind === "options" && field.options?.length) {
    input = html`<select ...${shared} value=${value ?? ""} onChange=${change}>
      <option value=""></option>
      ${field.options.map((/** @type {any} */ option) =>
        html`<option value=${optionText(option)}>${String(option?.label ?? optionText(option))}</option>`)}
    </select>`;
  } else if (kind.includes("file")) {
    input = html`<input ...${shared} type="file" multiple
      onChange=${(/** @type {any} */ e) => onChange([...e.target.files])} />`;
  } else if (kind === "boolean") {
    input = html`<input ...${shared} type="checkbox" checked=${value === true || value === "true"}
      onChange=${(/** @type {any} */ e) => onChange(e.target.checked)} />`;
  } else if (kind === "paragraph" || kind === "object") {
    const text = typeof value === "object" && value ? JSON.stringify(value) : value ?? "";
    input = html`<textarea ...${shared} rows="4" value=${text} onInput=${change}></textarea>`;
  } else {
    const isNumber = kind === "integer" || kind === "number";
    input = html`<input ...${shared} type=${isNumber ? "number" : "text"} step=${kind === "integer" ? "1" : "any"}
      value=${value ?? ""} onInput=${(/** @type {any} */ e) => onChange(readNumber(e.target.value, isNumber))} />`;
  }
  return html`<div class="field" data-kind=${kind}>
    <label for=${id}>${label}${field.optional ? "" : " *"}</label>${input}
    ${problem && html`<p class="problem" role="alert" id=${`${id}-problem`}><${OwnWords} meaning=${meaningOf("problems", "answer-invalid")} text=${problem} /></p>`}
  </div>`;
}

/** @param {string} text @param {boolean} isNumber @returns {any} */
function readNumber(text, isNumber) {
  return isNumber && text !== "" ? Number(text) : text;
}

/**
 * Show the fields of a form. `prefix` keeps forms apart that have the same names.
 * @param {{prefix: string, fields: Record<string, any>, values: Record<string, any>, problems: Record<string, string>,
 *   onChange: (values: Record<string, any>) => void}} props
 */
export function Fields({ prefix, fields, values, problems, onChange }) {
  return Object.entries(fields).map(([name, field]) => html`<${Field} key=${name} id=${`${prefix}-${name}`} name=${name}
    field=${field} value=${values[name]} problem=${problems[name]}
    onChange=${(/** @type {any} */ value) => onChange({ ...values, [name]: value })} />`);
}

/** @param {Record<string, any>} fields @returns {Record<string, any>} The values that a form begins with. */
export function initialValues(fields) {
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => {
    const kind = String(field.type ?? "").toLowerCase();
    return [name, kind.includes("file") ? [] : field.value ?? (kind === "boolean" ? false : "")];
  }));
}

/**
 * Return the values to send: without those of optional fields that are empty.
 * @param {Record<string, any>} fields @param {Record<string, any>} values @returns {Record<string, any>}
 */
export function givenValues(fields, values) {
  const isGiven = (/** @type {any} */ value) => value !== "" && !(Array.isArray(value) && !value.length);
  return Object.fromEntries(
    Object.entries(values).filter(([name, value]) => isGiven(value) || !fields[name]?.optional));
}

/**
 * Return the values of a form as a message, in the server's words.
 * @param {Record<string, any>} values @param {Record<string, any>} [fields] Those with the labels. @returns {string}
 */
export function answerText(values, fields = {}) {
  return Object.entries(values).map(([name, value]) =>
    `${fields[name]?.name || name}: ${typeof value === "string" ? value : toJson(value)}`).join("\n");
}

/**
 * Return forms, one of which begins with the values of a message, as `answerText` writes them; null if it fits no form.
 * @param {any[]} pauses @param {string} text @returns {any[] | null}
 */
export function fillForms(pauses, text) {
  for (const [at, pause] of pauses.entries()) {
    const values = readAnswer(text, pause.fields);
    if (values) return pauses.with(at, { ...pause, values: { ...initialValues(pause.fields), ...values } });
  }
  return null;
}

/** @param {string} text @param {Record<string, any>} fields @returns {Record<string, any> | null} */
function readAnswer(text, fields) {
  const kinds = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, String(field.type ?? "").toLowerCase()]));
  /** @type {Record<string, any>} */
  const values = {};
  let last = "";
  for (const line of text.split("\n")) {
    const name = Object.keys(fields).find((each) => !(each in values) && line.startsWith(`${fields[each].name || each}:`));
    if (!name && !last) return null;
    if (name) values[name] = line.slice((fields[name].name || name).length + 1).trimStart();
    else values[last] += `\n${line}`;
    last = name ?? last;
  }
  if (Object.entries(fields).some(([name, field]) => !field.optional && !(name in values))) return null;
  const given = Object.entries(values).filter(([name]) => !kinds[name].includes("file")); // they are chosen again
  return Object.fromEntries(given.map(([name, value]) => [name, kinds[name] === "boolean" ? value === "true"
    : readNumber(value, ["integer", "number"].includes(kinds[name]))]));
}

/** @param {any} value @returns {string} JSON with the server's spaces; an empty text for null. */
function toJson(value, isInner = false) {
  if (Array.isArray(value)) return `[${value.map((each) => toJson(each, true)).join(", ")}]`;
  if (value && typeof value === "object") {
    return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${toJson(each, true)}`).join(", ")}}`;
  }
  return value === null && !isInner ? "" : JSON.stringify(value);
}

/**
 * Show an open form with its button. It begins with the values that were refused, if there are any.
 * @param {{pause: any, title?: string, problems: Record<string, string>, isBusy: boolean,
 *   onAnswer: (id: string, values: any) => void, onGiveUp?: () => void}} props `onGiveUp` cancels the turn.
 */
export function PauseForm({ pause, title, problems, isBusy, onAnswer, onGiveUp }) {
  const [values, setValues] = useState(() => readUnsent().get(pause.id) ?? pause.values ?? initialValues(pause.fields));
  const type = (/** @type {Record<string, any>} */ given) => {
    readUnsent().set(pause.id, given);
    setValues(given);
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    readUnsent().delete(pause.id);
    onAnswer(pause.id, givenValues(pause.fields, values));
  };
  return html`<form class="pause" onSubmit=${submit} aria-label=${title || pause.node || t("formAsks")}>
    <p class="pause-title"><${Icon} name="form-input" /> ${title ? `${title} ` : ""}${t("formAsks")}</p>
    ${pause.tips && html`<${Markdown} text=${pause.tips} />`}
    <${Fields} prefix=${pause.id} fields=${pause.fields} values=${values} problems=${problems} onChange=${type} />
    <${Expiry} at=${pause.expire_ms} answer=${pause.expire_answer} />
    <p class="row"><button class="primary" disabled=${isBusy}>${t("answer")}</button>
      ${onGiveUp && html`<button type="button" class="quiet" disabled=${isBusy} onClick=${onGiveUp}>${t("giveUp")}</button>`}</p>
  </form>`;
}
