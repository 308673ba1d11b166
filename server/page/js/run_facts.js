/** What the server has stored about runs: how nodes went, the calls of models, and the state at the end. */

import { useEffect, useState } from "../vendor/preact.js";

/** @typedef {{visits: any[], calls: any[], dropped_calls: number, usage: any}} RunNodes */
/** @typedef {{run: any, nodes: RunNodes, variables: Map<string, any>, path: string[], kept: string[]}} RunFacts */

/** @type {RunNodes} */
export const NO_NODES = { visits: [], calls: [], dropped_calls: 0, usage: null };

/**
 * Return how the nodes of a run went. They are read again when `stamp` changes.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} runId @param {string} stamp @returns {RunNodes}
 */
export function useRunNodes(api, agent, runId, stamp) {
  const [nodes, setNodes] = useState(NO_NODES);
  useEffect(() => {
    let isCurrent = true;
    setNodes(NO_NODES);
    if (runId) {
      api.request(api.path(agent, `runs/${runId}/nodes`))
        .then((found) => isCurrent && setNodes(found), () => undefined); // the drawer shows what the stream has said
    }
    return () => { isCurrent = false; };
  }, [api, agent, runId, stamp]);
  return nodes;
}

/**
 * Return everything that two runs are compared by.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} runId @returns {Promise<RunFacts>}
 */
export async function loadFacts(api, agent, runId) {
  const [run, nodes] = await Promise.all([
    api.request(api.path(agent, `runs/${runId}`)), api.request(api.path(agent, `runs/${runId}/nodes`)),
  ]);
  const shown = (await loadVariables(api, agent, run)).filter((/** @type {any} */ one) => !/@_/.test(one.name));
  /** @type {Map<string, any>} */
  const variables = new Map(shown.map((/** @type {any} */ one) => [one.name, one.value]));
  const ran = new Set(nodes.visits.map((/** @type {any} */ visit) => visit.node));
  const known = new Set([...variables.keys()].map(nodeOf).filter(Boolean));
  const kept = ran.size ? [...known].filter((node) => !ran.has(node)) : []; // a rerun begins after these
  return { run, nodes, variables, path: ran.size ? [...kept, ...ran] : [...known], kept };
}

/**
 * Return the variables at the end of a run, or none if they are no longer stored.
 * @param {import("./api.js").Api} api @param {string} agent @param {any} run @returns {Promise<any[]>}
 */
export async function loadVariables(api, agent, run) {
  if (!run.checkpoint) return [];
  const moment = await api.request(api.path(agent, `sessions/${run.session_id}/history/${run.checkpoint}`)).catch(() => null);
  return (moment?.variables ?? []).filter((/** @type {any} */ one) => one.change !== "removed");
}

/** @param {string} name @returns {string} The node of an output, or an empty text. */
export function nodeOf(name) {
  return name.includes("@") ? name.slice(0, name.lastIndexOf("@")) : "";
}
