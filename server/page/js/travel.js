/** Runs that begin in the middle of another one: again from a node, with a draft, or from a stored step. */

import { useState } from "../vendor/preact.js";
import { newTurn } from "./turn.js";

/**
 * @typedef {{api: import("./api.js").Api, agent: string, turn: import("./turn.js").Turn | null, past: import("./turn.js").Turn[],
 *   opened: {current: string}, running: {current: AbortController | null}, isBusy: boolean,
 *   setTurn: (turn: import("./turn.js").Turn | null) => void, setPast: (past: import("./turn.js").Turn[]) => void,
 *   onCompare: () => void, report: (error: any) => void, listSessions: () => void,
 *   onSession: (session: string) => void, runAside: (path: string, body?: any) => Promise<any>,
 *   open: (session: string) => Promise<import("./turn.js").Turn | null>,
 *   follow: (first: import("./turn.js").Turn, request: {path: string, body?: any} | null) =>
 *     Promise<import("./turn.js").Turn | null | undefined>}} Place What the workspace shows, and how to change it.
 */

/**
 * Return how to run again from a node or a step, and which run was last run again by which.
 * @param {Place} place
 */
export function useTravel(place) {
  const { api, agent, turn, past, opened, follow, onSession } = place;
  const [again, setAgain] = useState(/** @type {[string, string]} */ (["", ""]));
  const [storedRun, setStoredRun] = useState("");
  const currentRun = turn?.runId || storedRun;

  /** Run the last turn again from a node, with the stored canvas or a draft of it. */
  const rerun = async (/** @type {string} */ from, /** @type {any} */ dsl = undefined) => {
    const before = opened.current;
    const last = turn ? null : lastQuestion(past);
    opened.current = "";
    if (last) place.setPast(last.earlier);
    const body = { node: from, ...(dsl ? { dsl } : {}) };
    const request = { path: `runs/${currentRun}/rerun?mode=stream`, body };
    const done = await follow(newTurn(turn?.query ?? last?.query ?? ""), request);
    if (done?.runId) {
      setAgain([currentRun, done.runId]);
      if (dsl) place.onCompare();
    } else if (!opened.current) { // it was refused: nothing has changed
      opened.current = before;
      place.setPast(past);
      place.setTurn(turn);
    }
  };

  /** Begin a conversation at a stored step, with other values, and run on from there if `goesOn`. */
  const fork = async (/** @type {any} */ step, /** @type {Record<string, any>} */ changes, /** @type {boolean} */ goesOn) => {
    const before = opened.current;
    try {
      const body = { checkpoint: step.checkpoint, changes };
      const made = await api.request(api.path(agent, `runs/${currentRun}/fork`), { body });
      place.listSessions();
      if (opened.current !== before) { // the reader has gone to another place meanwhile
        if (goesOn) await place.runAside(`runs/${made.id}/continue`);
        return;
      }
      if (!goesOn) {
        onSession(made.session_id);
        return;
      }
      place.running.current?.abort();
      opened.current = made.session_id;
      place.setTurn(null);
      onSession(made.session_id);
      const shown = await place.open(made.session_id);
      if (shown?.status !== "interrupted") return;
      const done = await follow({ ...shown, status: "starting" }, { path: `runs/${made.id}/continue?mode=stream` });
      if (done?.runId) setAgain([currentRun, done.runId]);
      else if (opened.current === made.session_id) place.setTurn(shown); // it can be tried again
    } catch (error) {
      place.report(error);
    }
  };
  const canRerun = Boolean(currentRun && !place.isBusy && !turn?.pauses.length);
  return { currentRun, canRerun, again, setStoredRun, rerun, fork };
}

/**
 * Return the last question, and what was before it.
 * @param {import("./turn.js").Turn[]} past @returns {{earlier: import("./turn.js").Turn[], query: string} | null}
 */
function lastQuestion(past) {
  const at = past.findLastIndex(({ query }) => query);
  return at < 0 ? null : { earlier: past.slice(0, at), query: past[at].query };
}
