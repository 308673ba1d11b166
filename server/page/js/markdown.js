/** Markdown of models and documents, which are hostile: sanitised, without scripts, styles, forms and foreign images. */

import { html, useContext } from "../vendor/preact.js";
import { Marked } from "../vendor/marked.js";
import DOMPurify from "../vendor/purify.js";
import { download, FileAccess, filePath, useImages } from "./files.js";

const TAGS = new Set(("b blockquote br caption code del div em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span strong sub sup "
  + "table tbody td tfoot th thead tr u ul").split(" "));
const TAG = /<(\/?)([a-z][a-z0-9]*)((?:\s[^<>]*)?)>|[<>]/gi;
const SPAN = /\b(?:col|row)span\s*=\s*["']?\d{1,4}/gi;
const OPTIONS = { USE_PROFILES: { html: true }, FORBID_ATTR: ["style", "class", "id", "name"], ADD_ATTR: ["data-cite"] };

/** @type {Record<string, any>} The chunks that the text may cite while it is converted. */
let citable = {};

const marked = new Marked({ gfm: true, breaks: true, async: false });
marked.use({
  renderer: { html: ({ text }) => keepTags(text) },
  extensions: [{
    name: "citation",
    level: "inline",
    start: (source) => source.indexOf("[ID:"),
    tokenizer: (source) => {
      const found = /^\[ID:(\d{1,6})\]/.exec(source);
      return found ? { type: "citation", raw: found[0], number: found[1] } : undefined;
    },
    renderer: ({ raw, number }) =>
      citable[number] ? `<button type="button" data-cite="${number}">${number}</button>` : raw,
  }],
});

/**
 * Return HTML that stands in Markdown with tags of texts and tables only, and these without attributes.
 *
 * DOMPurify removes the rest as well, but the browser reports an event handler while DOMPurify reads it.
 * @param {string} source @returns {string}
 */
function keepTags(source) {
  return source.replace(TAG, (whole, slash, name, attributes) => {
    if (!name || !TAGS.has(name.toLowerCase())) return whole.replace(/</g, "&lt;").replace(/>/g, "&gt;");
    return `<${slash}${name} ${(attributes.match(SPAN) ?? []).map((/** @type {string} */ span) => span.replace(/["']/g, "")).join(" ")}>`;
  });
}

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  node.removeAttribute("data-file");
  node.removeAttribute("tabindex");
  if (node.tagName === "PRE" || node.tagName === "TABLE") node.setAttribute("tabindex", "0"); // they scroll
  const path = filePath(node.getAttribute(node.tagName === "A" ? "href" : "src") ?? "");
  if (path && (node.tagName === "A" || node.tagName === "IMG")) node.setAttribute("data-file", path);
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  if (node.tagName === "IMG" && !/^(data:image\/|blob:)/.test(node.getAttribute("src") ?? "")) {
    node.removeAttribute("src"); // another server would learn who reads this; the text of the image stays
  }
});

/**
 * Show Markdown. A citation is a button that calls `onCite` with its number.
 * @param {{text: string, chunks?: Record<string, any>, onCite?: (number: string) => void}} props
 */
export function Markdown({ text, chunks = {}, onCite }) {
  citable = chunks;
  const clean = DOMPurify.sanitize(String(marked.parse(text)), OPTIONS);
  const open = useContext(FileAccess);
  const images = useImages(open ? [...clean.matchAll(/<img[^>]* data-file="([^"]+)"/g)].map(([, path]) => path) : []);
  const whole = clean.replace(/data-file="([^"]+)"/g, (found, path) => (images[path] ? `${found} src="${images[path]}"` : found));
  const click = (/** @type {any} */ event) => {
    const link = event.target.closest?.("a[data-file]");
    if (link && open) {
      event.preventDefault();
      download(open, link.dataset.file, link.textContent).catch(() => undefined);
    }
    const number = event.target.closest?.("[data-cite]")?.dataset.cite;
    if (number && onCite && chunks[number]) onCite(number);
  };
  return html`<div class="markdown" onClick=${click} dangerouslySetInnerHTML=${{ __html: whole }}></div>`;
}

/** @param {string} svg @returns {string} A drawing of the server without anything that could act. */
export function cleanSvg(svg) {
  return DOMPurify.sanitize(svg, { USE_PROFILES: { svg: true }, ADD_ATTR: ["data-node", "data-from", "data-to"], FORBID_TAGS: ["style", "a"] });
}
