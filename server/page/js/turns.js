/** The turns of a conversation, and the one that the graph, the log and the steps show. */

import { useEffect, useState } from "../vendor/preact.js";
import { loadTurn } from "./runs.js";

/** @typedef {{runId: string, question: string}} ListedTurn */

/**
 * Return the turns of a conversation, oldest first, and the one that the reader has chosen: the newest until then.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} session @param {any[]} messages
 * @param {import("./turn.js").Turn | null} turn The newest one, if this page knows its steps.
 */
export function useTurns(api, agent, session, messages, turn) {
  const [chosen, choose] = useState("");
  const [found, setFound] = useState(/** @type {Record<string, import("./turn.js").Turn>} */ ({}));
  const turns = listTurns(messages, turn);
  const newest = turns.at(-1)?.runId ?? "";
  const wanted = turns.some(({ runId }) => runId === chosen) ? chosen : newest;
  const isLive = wanted === (turn?.runId ?? "");
  useEffect(() => choose(""), [session, turn?.runId]);
  useEffect(() => {
    let isCurrent = true;
    if (wanted && !isLive && !found[wanted]) {
      loadTurn(api, agent, wanted).then((loaded) => {
        if (isCurrent) setFound((all) => ({ ...all, [wanted]: loaded }));
      }, () => undefined);
    }
    return () => { isCurrent = false; };
  }, [api, agent, wanted, isLive]);
  return { turns, chosen: wanted, choose, chosenTurn: isLive ? turn : found[wanted] ?? null };
}

/** @param {any[]} messages @param {import("./turn.js").Turn | null} turn @returns {ListedTurn[]} */
function listTurns(messages, turn) {
  /** @type {Map<string, string>} */
  const questions = new Map();
  for (const { run_id: runId, role, content } of messages) {
    if (runId && !questions.get(runId)) questions.set(runId, role === "user" ? content : "");
  }
  if (turn?.runId) questions.set(turn.runId, turn.query || questions.get(turn.runId) || "");
  return [...questions].map(([runId, question]) => ({ runId, question }));
}
