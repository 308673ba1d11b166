/** Markdown of models and documents, which are hostile: sanitised, without scripts, styles, forms and foreign images. */

import { html, useContext, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import DOMPurify from "../vendor/purify.js";
import { Card, Sources } from "./citations.js";
import { download, FileAccess, filePath, useImages } from "./files.js";
import { escapeHtml, readBlocks, toHtml } from "./markdown_source.js";
import { settle } from "./partial_markdown.js";
import { enrich } from "./rich_text.js";
import { language, t } from "./texts.js";

const OPTIONS = { USE_PROFILES: { html: true }, FORBID_ATTR: ["style", "class", "id", "name"] };
const MARK = /<sup data-(cite|note)="([^"]*)">([^<]*)<\/sup>/g;
/** A character, perhaps the ends of tags around it, and marks. */
const MARKED = new RegExp("(&[#\\w]+;|[^\\s<>&])((?:</(?:strong|em|del)>)*)(\\s?)"
  + "((?:<button type=\"button\" data-(?:cite|note)[^>]*>\\d+</button>){1,6})", "gu");

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (!(node instanceof HTMLElement)) return;
  node.removeAttribute("data-file");
  node.removeAttribute("tabindex");
  if (node.tagName === "PRE") node.setAttribute("tabindex", "0"); // it scrolls
  else if (node.parentNode?.nodeName === "BODY") node.setAttribute("dir", "auto");
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
 * @typedef {{text: string, blocks: import("./markdown_source.js").Block[], notes: Map<string, string>}} Read
 * @typedef {{kind: string, id: string, place: {top: number, start: number}}} Pointed The mark whose card is shown.
 */

/**
 * Return the blocks of a text. Those of a text that grows are kept, apart from the last one.
 * @param {Read} before @param {string} text @param {boolean} isStreaming @returns {Read}
 */
function readOn(before, text, isStreaming) {
  if (text === before.text) return before;
  const kept = before.blocks.slice(0, -1);
  const length = kept.reduce((sum, { raw }) => sum + raw.length, 0);
  if (!isStreaming || !kept.length || text.slice(0, length) !== kept.map(({ raw }) => raw).join("")) {
    return { text, ...readBlocks(text) };
  }
  const { blocks, notes } = readBlocks(text.slice(length));
  return { text, blocks: [...kept, ...blocks], notes: new Map([...before.notes, ...notes]) };
}

/**
 * Show Markdown. A citation is a numbered button that calls `onCite` with the number of its chunk.
 * @param {{text: string, chunks?: Record<string, any>, onCite?: (number: string) => void, isStreaming?: boolean}} props
 * `isStreaming` is true while the text grows.
 */
export function Markdown({ text, chunks = {}, onCite, isStreaming = false }) {
  const open = useContext(FileAccess);
  const read = useRef(/** @type {Read} */ ({ text: "", blocks: [], notes: new Map() }));
  const made = useRef(/** @type {Map<string, string>} */ (new Map()));
  const [pointed, setPointed] = useState(/** @type {Pointed | null} */ (null));
  read.current = readOn(read.current, text, isStreaming);
  const { blocks, notes } = read.current;
  /** @type {string[]} */
  const cited = [];
  /** @type {string[]} */
  const noted = [];
  /** @param {string} clean @returns {string} Its citations and footnotes as buttons with numbers, each beside its word. */
  const mark = (clean) => clean.replace(MARK, (_, kind, id, raw) => {
    if (kind === "cite" ? !chunks[id] : !notes.has(id)) return isStreaming ? "" : raw;
    const all = kind === "cite" ? cited : noted;
    if (!all.includes(id)) all.push(id);
    const number = all.indexOf(id) + 1;
    const name = kind === "cite" ? `${t("source")} ${number}: ${chunks[id].document_name ?? ""}` : `${t("note")} ${number}`;
    return `<button type="button" data-${kind}="${id}" aria-label="${escapeHtml(name)}">${number}</button>`;
  }).replace(MARKED, '<span class="marked">$1$3$4</span>$2');
  const convert = (/** @type {import("./markdown_source.js").Block} */ block, /** @type {boolean} */ isLast) => {
    if (isLast) {
      const [last] = readBlocks(settle(block.raw)).blocks;
      const clean = last ? DOMPurify.sanitize(toHtml(last), OPTIONS) : "";
      return clean.replaceAll('<code data-language="mermaid"', "$& data-open"); // it may grow: nobody draws it yet
    }
    const key = `${language()}${Object.keys(block.links ?? {}).length ? JSON.stringify(block.links) : ""}${block.raw}`;
    const known = made.current.get(key) ?? DOMPurify.sanitize(toHtml(block), OPTIONS);
    made.current.set(key, known);
    return known;
  };
  const shown = blocks.map((block, at) => mark(convert(block, isStreaming && at === blocks.length - 1)));
  const click = (/** @type {any} */ event) => {
    const link = event.target.closest?.("a[data-file]");
    if (link) {
      event.preventDefault(); // only a request with the key gets it
      if (open) download(open, link.dataset.file, link.textContent).catch(() => undefined);
    }
    const number = event.target.closest?.("[data-cite]")?.dataset.cite;
    if (number && onCite && chunks[number]) onCite(number);
  };
  const point = (/** @type {any} */ event) => {
    const button = event.target.closest?.("button:is([data-cite], [data-note])");
    const { cite, note } = button?.dataset ?? {};
    if (!button || (!cite && !note)) return setPointed(null);
    const [inner, outer] = [button.getBoundingClientRect(), event.currentTarget.getBoundingClientRect()];
    setPointed({
      kind: cite ? "cite" : "note", id: cite ?? note,
      place: { top: inner.bottom - outer.top, start: Math.max(0, Math.min(inner.left - outer.left, outer.width - 320)) },
    });
  };
  return html`<div class="markdown" onClick=${click} onMouseOver=${point} onMouseLeave=${() => setPointed(null)}
    onfocusin=${point} onfocusout=${() => setPointed(null)}
    onKeyDown=${(/** @type {any} */ event) => event.key === "Escape" && setPointed(null)}>
    ${shown.map((clean, at) => clean.trim() && html`<${Piece} key=${at} clean=${clean} />`)}
    ${noted.length > 0 && html`<ol class="notes" aria-label=${t("notes")}>${noted.map((id) => html`<li key=${id} dir="auto">${notes.get(id)}</li>`)}</ol>`}
    ${cited.length > 0 && html`<${Sources} numbers=${cited} chunks=${chunks} />`}
    ${pointed && html`<${Card} place=${pointed.place} chunk=${pointed.kind === "cite" ? chunks[pointed.id] : null}
      text=${pointed.kind === "note" ? notes.get(pointed.id) ?? "" : ""} />`}
  </div>`;
}

/** @param {{clean: string}} props `clean` is sanitised HTML. */
function Piece({ clean }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const open = useContext(FileAccess);
  const images = useImages(open ? [...clean.matchAll(/<img[^>]* data-file="([^"]+)"/g)].map(([, path]) => path) : []);
  const whole = clean.replace(/data-file="([^"]+)"/g, (found, path) => (images[path] ? `${found} src="${images[path]}"` : found));
  useLayoutEffect(() => { if (box.current) enrich(box.current); }, [whole, language()]);
  return html`<div class="piece" ref=${box} dangerouslySetInnerHTML=${{ __html: whole }}></div>`;
}

/** @param {string} svg @returns {SVGSVGElement | null} A drawing of the server without anything that could act. */
export function cleanSvg(svg) {
  return DOMPurify.sanitize(svg, {
    USE_PROFILES: { svg: true }, ADD_ATTR: ["data-node", "data-from", "data-to"], FORBID_TAGS: ["style", "a"], RETURN_DOM_FRAGMENT: true,
    TRUSTED_TYPES_POLICY: null, // no page of ours demands them, and the browser would be asked about each attribute
  }).querySelector("svg");
}
