/** The turns of a conversation, their steps, and the one that the graph, the log and the steps show. */

import { useCallback, useEffect, useRef, useState } from "../vendor/preact.js";
import { loadSteps } from "./stored_steps.js";

/**
 * @typedef {import("./turn.js").Turn} Turn
 * @typedef {{runId: string, question: string}} ListedTurn
 * @typedef {{steps: Record<string, Turn>, problems: Record<string, string>, load: (turn: Turn) => void}} Steps The steps
 *   of runs that were not played on this page, which are loaded on demand.
 */

/**
 * Return the turns of a conversation, oldest first, and the one that the reader has chosen: the newest until then.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} session @param {Turn[]} past
 * @param {Turn | null} turn The newest one, if it is not one of `past`.
 */
export function useTurns(api, agent, session, past, turn) {
  const [chosen, choose] = useState("");
  const steps = useSteps(api, agent);
  const all = turn ? [...past, turn] : past;
  /** @type {Map<string, ListedTurn & {turn: Turn}>} */
  const listed = new Map();
  for (const each of all) {
    const question = each.query || listed.get(each.runId)?.question || "";
    if (each.runId) listed.set(each.runId, { runId: each.runId, question, turn: each });
  }
  const turns = [...listed.values()];
  const shown = listed.get(chosen) ?? turns.at(-1);
  const isNew = Boolean(turn) && (!shown || !listed.has(chosen)); // a turn that begins has no run yet
  const own = isNew ? turn : shown?.turn ?? null;
  const missing = own?.stepsOf ?? "";
  useEffect(() => choose(""), [session, turn?.runId]);
  useEffect(() => { if (own && missing) steps.load(own); }, [missing]);
  const chosenTurn = own && missing ? whole(own, steps.steps[missing]) : own;
  return { turns, chosen: own?.runId ?? "", choose, chosenTurn, steps };
}

/** @param {Turn} turn @param {Turn | undefined} steps @returns {Turn} A turn with its loaded steps, if there are any. */
export function whole(turn, steps) {
  if (!turn.stepsOf || !steps) return turn;
  const { nodes, order, visits, records, calls, usage, startMs, endMs } = steps;
  const shown = { ...turn.shown, thinking: steps.shown.thinking };
  return {
    ...turn, nodes, order, visits, records, calls, shown, usage: usage ?? turn.usage, startMs, endMs,
    downloads: turn.downloads.length ? turn.downloads : steps.downloads, stepsOf: "", isEventless: steps.isEventless,
  };
}

/** @param {import("./api.js").Api} api @param {string} agent @returns {Steps} */
function useSteps(api, agent) {
  const [steps, setSteps] = useState(/** @type {Record<string, Turn>} */ ({}));
  const [problems, setProblems] = useState(/** @type {Record<string, string>} */ ({}));
  const asked = useRef(/** @type {Set<string>} */ (new Set()));
  const load = useCallback((/** @type {Turn} */ { stepsOf: runId = "", formRuns }) => {
    if (asked.current.has(runId)) return;
    asked.current.add(runId);
    loadSteps(api, agent, runId, formRuns).then((loaded) => setSteps((all) => ({ ...all, [runId]: loaded })), (error) => {
      asked.current.delete(runId);
      setProblems((all) => ({ ...all, [runId]: error.message }));
    });
  }, [api, agent]);
  return { steps, problems, load };
}
