/** A form for a JSON Schema, as the params of components have: prompts in text areas, the rest by its type. */

import { html, useState } from "../vendor/preact.js";
import { OwnWords } from "./own_words.js";
import { meaningOf, t } from "./texts.js";

const SECRET = /(key|token|password|secret|credential)s?$/i;
const LONG = 80;

/**
 * Return what a schema accepts, without the alternatives that only make it lenient.
 * @param {any} schema @param {Record<string, any>} definitions @returns {any}
 */
function plainSchema(schema, definitions) {
  let found = schema ?? {};
  for (let depth = 0; depth < 8; depth++) {
    if (found.$ref) found = definitions[String(found.$ref).split("/").at(-1) ?? ""] ?? {};
    else if (Array.isArray(found.anyOf) && found.anyOf.length) {
      const [first] = found.anyOf;
      found = { ...first, examples: found.examples ?? first.examples };
    } else break;
  }
  return found;
}

/**
 * @typedef {{id: string, name: string, schema: any, definitions: Record<string, any>, value: any, about?: string,
 *   isPrompt?: boolean, onChange: (value: any) => void}} FieldProps
 */

/**
 * Show the fields of an object.
 * @param {{id: string, names: string[], schema: any, definitions: Record<string, any>, value: any, help?: Record<string, any>,
 *   onChange: (value: any) => void}} props
 */
export function SchemaFields({ id, names, schema, definitions, value, help = {}, onChange }) {
  return html`${names.map((name) => html`<${SchemaField} key=${name} id=${`${id}-${name}`} name=${name}
    schema=${schema.properties?.[name]} definitions=${definitions} value=${value?.[name] ?? simpleDefault(schema.properties?.[name])}
    about=${help[name]?.about} isPrompt=${help[name]?.type === "text with references"}
    onChange=${(/** @type {any} */ next) => onChange({ ...value, [name]: next })} />`)}`;
}

/** @param {any} schema @returns {any} The default, unless it is written differently in canvases. */
function simpleDefault(schema) {
  return schema?.default === null || typeof schema?.default === "object" ? undefined : schema?.default;
}

/** @param {{name: string}} props Its meaning, and how canvases have it. */
function Label({ name }) {
  const meaning = meaningOf("parameters", name);
  return meaning ? html`${meaning} <code>${name}</code>` : name;
}

/** @param {FieldProps} props */
function SchemaField({ id, name, schema, definitions, value, about, isPrompt = false, onChange }) {
  const plain = plainSchema(schema, definitions);
  const items = plain.type === "array" ? plainSchema(plain.items, definitions) : null;
  if (items?.properties && Array.isArray(value ?? [])) {
    return html`<${ListField} id=${id} name=${name} schema=${items} definitions=${definitions} value=${value ?? []}
      onChange=${onChange} />`;
  }
  const given = { id, "aria-describedby": about ? `${id}-about` : undefined };
  return html`<div class="field"><label for=${id}><${Label} name=${name} /></label>
    <${Input} given=${given} plain=${plain} value=${value} isSecret=${SECRET.test(name)}
      isLong=${isPrompt || /references in braces/.test(plain.description ?? "")} onChange=${onChange} />
    ${about && html`<p class="hint" id=${`${id}-about`}>${meaningOf("help", about) || html`<${OwnWords} text=${about} />`}</p>`}</div>`;
}

/**
 * @param {{given: any, plain: any, value: any, isSecret: boolean, isLong: boolean, onChange: (value: any) => void}} props
 */
function Input({ given, plain, value, isSecret, isLong, onChange }) {
  const text = (/** @type {any} */ e) => onChange(e.target.value);
  if (Array.isArray(plain.enum)) {
    return html`<select ...${given} value=${value ?? ""} onChange=${text}><option value=""></option>
      ${plain.enum.map((/** @type {any} */ one) => html`<option value=${one}>${String(one)}</option>`)}</select>`;
  }
  if (plain.type === "boolean" || typeof value === "boolean") {
    return html`<input ...${given} type="checkbox" checked=${Boolean(value)}
      onChange=${(/** @type {any} */ e) => onChange(e.target.checked)} />`;
  }
  if (plain.type === "integer" || plain.type === "number") {
    return html`<input ...${given} type="number" step=${plain.type === "integer" ? "1" : "any"} min=${plain.minimum} max=${plain.maximum}
      value=${value ?? ""} onInput=${(/** @type {any} */ e) => e.target.value !== "" && onChange(Number(e.target.value))} />`;
  }
  if (typeof value === "string" || (plain.type === "string" && typeof (value ?? "") !== "object")) {
    const shown = value ?? "";
    if (isSecret) return html`<input ...${given} type="password" autocomplete="off" value=${shown} onInput=${text} />`;
    if (isLong || String(shown).length > LONG || String(shown).includes("\n")) {
      return html`<textarea ...${given} rows=${Math.min(14, 3 + String(shown).split("\n").length)} value=${shown} onInput=${text}></textarea>`;
    }
    const list = plain.examples?.length ? `${given.id}-list` : undefined;
    return html`<input ...${given} list=${list} value=${shown} onInput=${text} />
      ${list && html`<datalist id=${list}>${plain.examples.map((/** @type {any} */ one) => html`<option value=${one}></option>`)}</datalist>`}`;
  }
  return html`<${JsonInput} given=${given} value=${value} onChange=${onChange} />`;
}

/** @param {{given: any, value: any, onChange: (value: any) => void}} props */
function JsonInput({ given, value, onChange }) {
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [isWrong, setWrong] = useState(false);
  const change = (/** @type {any} */ e) => {
    setText(e.target.value);
    try {
      onChange(JSON.parse(e.target.value));
      setWrong(false);
    } catch {
      setWrong(true);
    }
  };
  return html`<textarea ...${given} class="code" rows=${Math.min(10, 1 + text.split("\n").length)} value=${text} aria-invalid=${isWrong}
      onInput=${change}></textarea>
    ${isWrong && html`<p class="problem" role="alert">${t("noJson")}</p>`}`;
}

/**
 * @param {{id: string, name: string, schema: any, definitions: Record<string, any>, value: any[],
 *   onChange: (value: any) => void}} props
 */
function ListField({ id, name, schema, definitions, value, onChange }) {
  const names = Object.keys(schema.properties);
  const set = (/** @type {number} */ at, /** @type {any} */ next) =>
    onChange(value.map((each, index) => (index === at ? next : each)));
  return html`<fieldset><legend><${Label} name=${name} /></legend>
    ${value.map((each, at) => html`<fieldset key=${at}><legend>${at + 1}</legend>
      <${SchemaFields} id=${`${id}-${at}`} names=${names} schema=${schema} definitions=${definitions} value=${each}
        onChange=${(/** @type {any} */ next) => set(at, next)} />
      <button type="button" onClick=${() => onChange(value.filter((_, index) => index !== at))}>${t("remove")}</button>
    </fieldset>`)}
    <button type="button" onClick=${() => onChange([...value, emptyItem(schema, definitions)])}>${t("addEntry")}</button>
  </fieldset>`;
}

/** @param {any} schema @param {Record<string, any>} definitions @returns {any} */
function emptyItem(schema, definitions) {
  const entries = Object.entries(schema.properties).map(([name, each]) =>
    [name, /** @type {any} */ (each).default ?? (plainSchema(each, definitions).type === "string" ? "" : null)]);
  return Object.fromEntries(entries);
}
