/** The chunks that a message cites, by the numbers in its text. */

/** @param {any} message A stored message, or one of this page. @returns {Record<string, any>} */
export function citedChunks(message) {
  return Object.fromEntries((message.reference ?? []).map((/** @type {any} */ chunk, /** @type {number} */ at) =>
    [String(chunk.citation_id ?? at), chunk]));
}
