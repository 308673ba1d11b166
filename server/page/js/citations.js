/** The chunks that a message cites: by the numbers in its text, in a card at the number, and as a list. */

import { html } from "../vendor/preact.js";
import { CITATIONS } from "./markdown_source.js";
import { t } from "./texts.js";

const MAX_PASSAGE = 400;

/** @param {any} message A stored message, or one of this page. @returns {Record<string, any>} */
export function citedChunks(message) {
  return Object.fromEntries((message.reference ?? []).map((/** @type {any} */ chunk, /** @type {number} */ at) =>
    [String(chunk.citation_id ?? at), chunk]));
}

/** @param {any} chunk @returns {string} Its document, and its page, heading or lines if they are known. */
export function placeOf(chunk) {
  return [chunk.document_name ?? t("source"), passageOf(chunk)].filter(Boolean).join(" · ");
}

/** @param {any} chunk @returns {string} */
function passageOf(chunk) {
  const [page = 0, left, right, from = 0, to = 0] = (chunk.positions?.[0] ?? []).map(Number);
  if (page > 0) return [left, right, from, to].every((each) => each === page) ? "" : t("pageNumber", { page }); // RAGFlow counts chunks so
  const lines = String(chunk.content ?? "").split("\n");
  const headings = lines.length === to - from + 2 ? lines[0].split(" > ") : []; // one line more than it has in the file
  if (from > 0 && headings.length > 1) return /** @type {string} */ (headings.at(-1));
  return from > 0 ? t("lineNumbers", { from, to }) : "";
}

/** @param {string} text @param {Record<string, any>} chunks @returns {string} The text with documents instead of their marks. */
export function nameMarks(text, chunks) {
  return text.replace(CITATIONS, (mark, ...found) => {
    const chunk = chunks[Number(found.slice(0, 4).find(Boolean))];
    return chunk ? `[${placeOf(chunk)}]` : mark;
  });
}

/**
 * Show what stands behind a mark: the passage of a chunk, or the text of a footnote.
 * @param {{place: {top: number, start: number}, chunk: any, text: string}} props `place` is in pixels.
 */
export function Card({ place, chunk, text }) {
  const passage = String(chunk ? chunk.content ?? "" : text);
  return html`<div class="cite-card" role="note" dir="auto" style=${{ top: `${place.top}px`, left: `${place.start}px` }}>
    ${chunk && html`<strong>${placeOf(chunk)}</strong>`}
    ${passage && html`<p>${passage.length > MAX_PASSAGE ? `${passage.slice(0, MAX_PASSAGE)} …` : passage}</p>`}</div>`;
}

/** @param {{numbers: string[], chunks: Record<string, any>}} props `numbers` in the order of their marks. */
export function Sources({ numbers, chunks }) {
  return html`<p class="sources"><span>${t("sources")}</span>${numbers.map((id, at) =>
    html`<button type="button" data-cite=${id} key=${id}><b>${at + 1}</b> ${placeOf(chunks[id])}</button>`)}</p>`;
}
