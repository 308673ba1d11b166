/** What readers have written and not sent, in boxes and forms: it outlives the views, and belongs to the reader's key. */

import { keep, readKept } from "./api.js";

const KEPT = "ragflow-lg-unsent";
const MAX_KEPT = 500_000; // characters

/** By conversation, or by the form's id. @type {Map<string, any>} */
let unsent = new Map();

/** @returns {Map<string, any>} */
export function readUnsent() {
  return unsent;
}

/** Forget everything; what still writes into it, writes into nothing. */
export function forgetUnsent() {
  unsent = new Map();
}

/**
 * Let the box of another conversation have what is written, after what is written there.
 * @param {string} from @param {string} to
 */
export function moveUnsent(from, to) {
  const [moved, there] = [unsent.get(from), unsent.get(to)];
  unsent.delete(from);
  const text = [there?.text, moved?.text].filter(Boolean).join("\n");
  unsent.set(to, { text, files: [...there?.files ?? [], ...moved?.files ?? []] });
}

/** Keep what is in boxes, without its files, until the page is opened again in this tab. @param {string} owner */
export function keepUnsent(owner) {
  const texts = [...unsent].flatMap(([place, { text }]) => (place.includes("/") && text ? [[place, text]] : [])); // no forms
  const kept = texts.length ? JSON.stringify({ owner, texts }) : "";
  keep(KEPT, kept.length > MAX_KEPT ? "" : kept);
}

/** Leave nothing in the tab while the page is open. */
export function dropKept() {
  keep(KEPT, "");
}

/** Take what was kept out of the tab, which may be copied, or be left by its reader. @param {string} reader */
export function restoreUnsent(reader) {
  const kept = readKept(KEPT);
  dropKept();
  try {
    const { owner, texts } = JSON.parse(kept);
    const given = texts.map((/** @type {any[]} */ [place, text]) => [String(place), { text: String(text), files: [] }]);
    if (owner === reader) unsent = new Map(given);
  } catch { /* nothing was kept, or something else */ }
}
