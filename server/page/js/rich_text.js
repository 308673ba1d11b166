/** What blocks of Markdown get after they are shown: heads of code, colours, formulas. Its libraries load when needed. */

import { html, render, useEffect, useRef, useState } from "../vendor/preact.js";
import DOMPurify from "../vendor/purify.js";
import { Icon } from "./icons.js";
import { t } from "./texts.js";
import { readTheme, watchTheme } from "./theme.js";

const MAX_CODE = 20_000;
const MAX_FORMULA = 5_000;
const MAX_FORMULAS = 500;
const FORMULA = { trust: false, throwOnError: true, maxExpand: 200, maxSize: [20, 200] };
const MATHML = {
  USE_PROFILES: { mathMl: true }, ADD_TAGS: ["span"], ADD_ATTR: ["class", "style", "separator", "form"], FORBID_ATTR: ["href", "xlink:href", "id"],
};

/** @type {any} */
let highlighter = null;
/** @type {any} */
let temml = null;
/** @typedef {typeof import("./diagram.js").drawDiagram} Draw */
/** @type {Draw | null} */
let drawDiagram = null;
/** @returns {string} */
const nothing = () => "";

/** @param {HTMLElement} box A block whose HTML is sanitised. In another language, it is enriched again. */
export function enrich(box) {
  for (const table of box.querySelectorAll("table")) wrapTable(table);
  for (const code of /** @type {NodeListOf<HTMLElement>} */ (box.querySelectorAll("pre > code"))) addHead(code);
  addColours(box);
  offerDrawings(box);
  drawFormulas(box);
}

/** @param {Element} table */
function wrapTable(table) {
  const known = table.parentElement?.matches(".table") ? table.parentElement : null;
  const scroller = known ?? document.createElement("div");
  scroller.setAttribute("aria-label", t("table"));
  if (known) return;
  scroller.className = "table";
  scroller.tabIndex = 0;
  scroller.setAttribute("role", "group");
  table.replaceWith(scroller);
  scroller.append(table);
}

/** @param {HTMLElement} code */
function addHead(code) {
  const known = code.closest(".code")?.firstElementChild;
  if (known) return renderHead(code, known);
  const block = document.createElement("div");
  block.className = "code";
  block.dir = "ltr";
  const head = document.createElement("div");
  const pre = /** @type {HTMLElement} */ (code.parentElement);
  pre.replaceWith(block);
  block.append(head, pre);
  renderHead(code, head);
}

/** @param {HTMLElement} code @param {any} head Rendered again when the names of languages are known. */
function renderHead(code, head) {
  render(html`<${CodeHead} name=${code.dataset.language ?? ""} text=${code.textContent ?? ""}
    draw=${canBeDrawn(code) ? drawDiagram : null} />`, head);
}

/** @param {HTMLElement} code @returns {boolean} Whether it is a diagram that is written completely. */
function canBeDrawn({ dataset, textContent }) {
  return dataset.language === "mermaid" && !("open" in dataset) && (textContent ?? "").length <= MAX_CODE;
}

/** @param {{name: string, text: string, draw: Draw | null}} props */
function CodeHead({ name, text, draw }) {
  const [isCopied, setCopied] = useState(false);
  const [picture, setPicture] = useState("");
  const head = useRef(/** @type {HTMLElement | null} */ (null));
  const [note, setNote] = useState({ kind: "hint", read: nothing }); // read when it is shown, in the language of then
  const copy = () => navigator.clipboard?.writeText(text).then(() => setCopied(true), () => undefined);
  const show = () => {
    const end = (/** @type {string} */ drawn, read = nothing) => { setPicture(drawn); setNote({ kind: "problem", read }); };
    setNote({ kind: "hint", read: () => t("isDrawing") });
    draw?.(text, readTheme()).then(end, (error) => end("", () => t("notDrawn", { problem: error.message || t(error.cause) })));
  };
  useEffect(() => (picture ? watchTheme(() => head.current?.isConnected && show()) : undefined), [picture]);
  return html`<div class="code-head" ref=${head}>
      <span>${name === "mermaid" ? t("mermaid") : highlighter?.getLanguage(name)?.name ?? (name || t("code"))}</span>
      ${draw && html`<button type="button" onClick=${picture ? () => setPicture("") : show}><${Icon} name=${picture ? "file" : "image"} />
        ${" "}${t(picture ? "diagramSource" : "draw")}</button>`}
      <button type="button" onClick=${copy}><${Icon} name=${isCopied ? "check" : "copy"} /> ${t(isCopied ? "copied" : "copy")}</button></div>
    ${draw && html`<p class=${note.kind} role="status">${note.read()}</p>`}
    ${picture && html`<div class="diagram" role="img" aria-label=${t("mermaid")} tabindex="0"><img src=${picture} alt="" /></div>`}`;
}

/** @param {HTMLElement} box */
function offerDrawings(box) {
  const found = /** @type {HTMLElement[]} */ ([...box.querySelectorAll("code[data-language=mermaid]")]);
  if (!found.length || drawDiagram || box.closest(".run-file")) return; // a run file has no library for them
  import("./diagram.js").then((loaded) => {
    ({ drawDiagram } = loaded);
    for (const code of found) renderHead(code, code.closest(".code")?.firstElementChild);
  }, () => undefined);
}

/** @param {HTMLElement} box */
function addColours(box) {
  const found = /** @type {HTMLElement[]} */ ([...box.querySelectorAll("code[data-language]")])
    .filter((code) => code.dataset.language && code.textContent && code.textContent.length <= MAX_CODE);
  if (!found.length) return;
  if (!highlighter) {
    import("../vendor/highlight.js").then((loaded) => { highlighter = loaded.default; addColours(box); }, () => undefined);
    return;
  }
  for (const code of found) {
    const language = code.dataset.language ?? "";
    if (code.dataset.coloured || !highlighter.getLanguage(language)) continue;
    code.dataset.coloured = "true";
    const head = code.closest(".code")?.firstElementChild;
    if (head) renderHead(code, head);
    const { value } = highlighter.highlight(code.textContent, { language, ignoreIllegals: true });
    code.replaceChildren(DOMPurify.sanitize(value, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true }));
  }
}

/** @param {HTMLElement} box */
function drawFormulas(box) {
  const found = /** @type {HTMLElement[]} */ ([...box.querySelectorAll("code[data-formula]")]).slice(0, MAX_FORMULAS);
  if (!found.length) return;
  if (!temml) {
    import("../vendor/temml.js").then((loaded) => { temml = loaded.default; drawFormulas(box); }, () => undefined);
    return;
  }
  for (const code of found) {
    const source = code.textContent ?? "";
    const drawn = document.createElement("span");
    drawn.className = `formula ${code.dataset.formula}`;
    try {
      if (source.length > MAX_FORMULA) continue;
      temml.render(source, drawn, { ...FORMULA, displayMode: code.dataset.formula === "display" });
      DOMPurify.sanitize(drawn, { ...MATHML, IN_PLACE: true });
      code.replaceWith(drawn);
    } catch (error) { // the source stays
      code.title = String(/** @type {any} */ (error).message ?? error).slice(0, 200);
      delete code.dataset.formula;
    }
  }
}
