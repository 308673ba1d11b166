/** The API reference: the operations of the server's OpenAPI document, by tag. */

import { html, render, useEffect, useState } from "../vendor/preact.js";
import { Markdown } from "./markdown.js";
import { t } from "./texts.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const MAX_DEPTH = 4;

/** @typedef {{method: string, path: string, operation: any}} Route */

/** @param {any} document @returns {Map<string, Route[]>} The operations by their first tag. */
function groupByTag(document) {
  const groups = new Map();
  for (const [path, item] of Object.entries(document.paths)) {
    for (const method of METHODS) {
      const operation = /** @type {any} */ (item)[method];
      if (!operation) continue;
      const tag = operation.tags?.[0] ?? "Other";
      groups.set(tag, [...(groups.get(tag) ?? []), { method, path, operation }]);
    }
  }
  return groups;
}

/** @param {any} document @param {any} schema @returns {any} The schema that a reference names, or the schema itself. */
function resolve(document, schema) {
  const name = schema?.$ref?.split("/").at(-1);
  return name ? { title: name, ...document.components.schemas[name] } : schema;
}

/** @param {any} schema @returns {string} A short name for the kind of a value. */
function kindOf(schema) {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((/** @type {any} */ value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(kindOf).join(" | ");
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.type === "array") return `list of ${kindOf(schema.items ?? {})}`;
  return schema.type ?? "any";
}

/** @param {{document: any, schema: any, depth?: number}} props */
function Schema({ document, schema, depth = 0 }) {
  const known = resolve(document, schema) ?? {};
  if (known.type === "array" && depth < MAX_DEPTH) {
    return html`<${Schema} document=${document} schema=${known.items ?? {}} depth=${depth + 1} />`;
  }
  const fields = Object.entries(known.properties ?? {});
  if (!fields.length) return html`<p><code>${kindOf(known)}</code> ${known.description ?? ""}</p>`;
  const required = new Set(known.required ?? []);
  return html`<ul class="fields">${fields.map(([name, field]) => {
    const inner = resolve(document, field);
    const isNested = depth < MAX_DEPTH && (inner?.properties || inner?.items?.$ref);
    return html`<li><code>${name}</code>${required.has(name) ? " *" : ""} <i>${kindOf(/** @type {any} */ (field))}</i>
      ${` ${/** @type {any} */ (field).description ?? ""}`}
      ${isNested && html`<details><summary>…</summary>
        <${Schema} document=${document} schema=${field} depth=${depth + 1} /></details>`}</li>`;
  })}</ul>`;
}

/** @param {{document: any, content: any}} props */
function Contents({ document, content }) {
  return html`${Object.entries(content ?? {}).map(([type, value]) => html`<div><p class="hint">${type}</p>
    <${Schema} document=${document} schema=${/** @type {any} */ (value).schema ?? {}} /></div>`)}`;
}

/** @param {{document: any, route: Route}} props */
function Operation({ document, route: { method, path, operation } }) {
  const [isOpen, setOpen] = useState(false);
  const toggle = (/** @type {any} */ event) => setOpen(event.target.open);
  return html`<details class="operation" onToggle=${toggle}>
    <summary><code>${method.toUpperCase()} ${path}</code> ${operation.summary ?? ""}</summary>
    ${isOpen && html`<${Markdown} text=${operation.description ?? ""} />
      ${operation.parameters?.length && html`<h3>${t("inputs")}</h3><ul class="fields">${operation.parameters.map(
        (/** @type {any} */ field) => html`<li><code>${field.name}</code>${field.required ? " *" : ""}
          <i>${field.in}, ${kindOf(field.schema ?? {})}</i> ${field.description ?? ""}</li>`)}</ul>`}
      ${operation.requestBody && html`<${Contents} document=${document} content=${operation.requestBody.content} />`}
      <h3>${t("outputs")}</h3>
      ${Object.entries(operation.responses ?? {}).map(([status, answer]) => html`<details><summary>${status}
        ${` ${/** @type {any} */ (answer).description ?? ""}`}</summary>
        <${Contents} document=${document} content=${/** @type {any} */ (answer).content} /></details>`)}`}
  </details>`;
}

function Reference() {
  const [document, setDocument] = useState(/** @type {any} */ (null));
  const [wanted, setWanted] = useState("");
  const [problem, setProblem] = useState("");
  useEffect(() => {
    fetch("openapi.json").then((answer) => answer.json()).then(setDocument, (error) => setProblem(String(error)));
  }, []);
  if (!document) return html`<main class="agents"><p class="problem" role="alert">${problem}</p></main>`;
  const text = wanted.toLowerCase();
  const shown = (/** @type {Route} */ { path, operation }) =>
    `${path} ${operation.summary ?? ""}`.toLowerCase().includes(text);
  return html`<main class="agents"><h1>${t("reference")}</h1>
    <p><a href="openapi.json">openapi.json</a> · ${document.info.title} ${document.info.version}</p>
    <input type="search" placeholder=${t("search")} aria-label=${t("search")} value=${wanted}
      onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} />
    ${[...groupByTag(document)].map(([tag, routes]) => {
      const found = routes.filter(shown);
      return found.length > 0 && html`<section key=${tag}><h2>${tag}</h2>
        ${found.map((route) => html`<${Operation} key=${route.method + route.path} document=${document}
          route=${route} />`)}</section>`;
    })}
  </main>`;
}

const root = document.getElementById("app");
if (root) render(html`<${Reference} />`, root);
