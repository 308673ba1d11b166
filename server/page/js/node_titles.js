/** The titles of a canvas's nodes, as its editor shows them. No DOM, no requests. */

/** @param {any} dsl @returns {(node: string) => string} What returns the title of a node; its id, if it has none. */
export function readTitles(dsl) {
  const nodes = Array.isArray(dsl?.graph?.nodes) ? dsl.graph.nodes : [];
  /** @type {Map<string, string>} */
  const titles = new Map(nodes.map((/** @type {any} */ node) => [node?.id, node?.data?.name]));
  return (node) => titles.get(node) || node;
}
