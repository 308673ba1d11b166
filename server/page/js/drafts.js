/** A canvas that is being edited and that nobody has saved. No DOM, no requests. */

import { isSame } from "./shown_values.js";

/** @typedef {{base: any, dsl: any}} Draft The canvas as it is stored, and as it is edited. */

/** @param {any} dsl @param {string} node @returns {any} The entry of a node, or null. */
function entryOf(dsl, node) {
  const components = dsl?.components;
  return components && Object.hasOwn(components, node) ? components[node] : null;
}

/** @param {any} dsl @param {string} node @returns {{component: string, params: any} | null} */
export function readNode(dsl, node) {
  const obj = entryOf(dsl, node)?.obj;
  return obj?.component_name ? { component: obj.component_name, params: obj.params ?? {} } : null;
}

/**
 * Return a canvas with other params of a node, also where RAGFlow's editor keeps its copy of them.
 * @param {any} dsl @param {string} node @param {any} params @returns {any}
 */
export function withParams(dsl, node, params) {
  const entry = entryOf(dsl, node);
  if (!entry) return dsl;
  const before = entry.obj.params ?? {};
  const components = { ...dsl.components, [node]: { ...entry, obj: { ...entry.obj, params } } };
  const changed = Object.keys(params).filter((name) => !isSame(before[name], params[name]));
  const nodes = dsl.graph?.nodes;
  if (!Array.isArray(nodes)) return { ...dsl, components };
  const drawn = nodes.map((/** @type {any} */ each) => {
    const form = each?.data?.form;
    if (each?.id !== node || !form || typeof form !== "object") return each;
    const copied = Object.fromEntries(changed.filter((name) => Object.hasOwn(form, name)).map((name) => [name, params[name]]));
    return { ...each, data: { ...each.data, form: { ...form, ...copied } } };
  });
  return { ...dsl, components, graph: { ...dsl.graph, nodes: drawn } };
}

/** @param {Draft} draft @returns {string[]} The ids of the nodes whose params differ. */
export function changedNodes({ base, dsl }) {
  return Object.keys(dsl.components ?? {}).filter((id) => !isSame(entryOf(base, id), entryOf(dsl, id)));
}

/**
 * Return what a draft means for a rerun from a node: which changed nodes run again, and which keep their results.
 * @param {Draft} draft @param {string} from @param {string[]} order The nodes of the turn in the order in which they ran.
 * @returns {{again: string[], kept: string[]}}
 */
export function explain(draft, from, order) {
  const start = order.indexOf(from);
  const changed = changedNodes(draft);
  const kept = changed.filter((id) => id !== from && order.includes(id) && order.indexOf(id) < start);
  return { again: changed.filter((id) => !kept.includes(id)), kept };
}
