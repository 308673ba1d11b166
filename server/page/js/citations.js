/** The chunks that a message cites: by the numbers in its text, in a card at the number, and as a list. */

import { html } from "../vendor/preact.js";
import { t } from "./texts.js";

const MAX_PASSAGE = 400;

/** @param {any} message A stored message, or one of this page. @returns {Record<string, any>} */
export function citedChunks(message) {
  return Object.fromEntries((message.reference ?? []).map((/** @type {any} */ chunk, /** @type {number} */ at) =>
    [String(chunk.citation_id ?? at), chunk]));
}

/** @param {any} chunk @returns {string} Its document, and the page if it is known. */
function placeOf(chunk) {
  const page = chunk.positions?.[0]?.[0];
  return `${chunk.document_name ?? t("source")}${Number(page) > 0 ? `, ${t("page")} ${page}` : ""}`;
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
