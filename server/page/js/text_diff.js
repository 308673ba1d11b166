/** What differs between two texts, by lines of words. The library is loaded when the first difference is shown. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { t } from "./texts.js";

const MAX_CHARS = 20_000;
const SECONDS = 0.5;

/**
 * @typedef {{kind: "same" | "added" | "removed", text: string}} Part
 */

/** @type {Promise<any> | null} */
let library = null;

/**
 * Return the parts of both texts. Very long texts are compared up to a limit, and for half a second at most.
 * @param {string} before @param {string} after @returns {Promise<Part[]>}
 */
async function compareTexts(before, after) {
  library ??= import("../vendor/diff.js");
  const { diffMain, diffCleanupSemantic } = await library;
  const parts = diffMain(before.slice(0, MAX_CHARS), after.slice(0, MAX_CHARS), { diffTimeout: SECONDS });
  diffCleanupSemantic(parts);
  return parts.map((/** @type {[number, string]} */ [sign, text]) =>
    ({ kind: sign < 0 ? "removed" : sign > 0 ? "added" : "same", text }));
}

/**
 * Show the difference between two texts.
 * @param {{before: string, after: string}} props
 */
export function TextDiff({ before, after }) {
  const [parts, setParts] = useState(/** @type {Part[] | null} */ (null));
  useEffect(() => {
    let isCurrent = true;
    compareTexts(before, after).then((found) => isCurrent && setParts(found), () => undefined);
    return () => { isCurrent = false; };
  }, [before, after]);
  if (!parts) return html`<pre tabindex="0" class="difference" aria-busy="true">${after}</pre>`;
  return html`<pre tabindex="0" class="difference" aria-label=${t("difference")}>${parts.map((part) =>
    part.kind === "added" ? html`<ins>${part.text}</ins>`
      : part.kind === "removed" ? html`<del>${part.text}</del>` : part.text)}</pre>`;
}
