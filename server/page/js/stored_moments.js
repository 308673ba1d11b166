/** The stored steps of a session and its runs, which are read again when a turn ends. */

import { useEffect, useMemo, useState } from "../vendor/preact.js";
import { readSteps } from "./step_words.js";
import { language } from "./texts.js";

const PAGE = 200;

/**
 * @param {import("./api.js").Api} api @param {string} agent @param {string} session
 * @param {string} stamp What changes when there are more of them. @param {boolean} isWanted
 */
export function useMoments(api, agent, session, stamp, isWanted) {
  const [moments, setMoments] = useState(/** @type {import("./step_words.js").Moment[]} */ ([]));
  const [runs, setRuns] = useState(/** @type {any[]} */ ([]));
  const [hasMore, setMore] = useState(false);
  const [problem, setProblem] = useState("");
  const [loaded, setLoaded] = useState("");
  const place = `${session} ${stamp}`;
  const read = (/** @type {number} */ offset) =>
    api.request(api.path(agent, `sessions/${session}/history?limit=${PAGE}&offset=${offset}`));
  useEffect(() => {
    let isCurrent = true;
    if (session && isWanted && loaded !== place) {
      Promise.all([read(0), api.request(api.path(agent, `runs?session_id=${session}&page_size=100`))]).then(([page, list]) => {
        if (!isCurrent) return;
        setMoments(page.moments);
        setMore(page.has_more);
        setRuns(list.runs.filter((/** @type {any} */ run) => run.checkpoint || !run.end_ms)); // others have no steps here
        setLoaded(place);
        setProblem("");
      }, (error) => isCurrent && setProblem(error.message));
    }
    return () => { isCurrent = false; };
  }, [api, agent, place, isWanted]);
  const more = () => read(moments.length).then((page) => {
    setMoments([...moments, ...page.moments]);
    setMore(page.has_more);
  }, (error) => setProblem(error.message));
  const steps = useMemo(() => readSteps(moments), [moments, language()]);
  const isHere = loaded.startsWith(`${session} `);
  return {
    steps: isHere ? steps : [], runs: isHere ? runs : [], hasMore: isHere && hasMore, more, problem, isLoading: loaded !== place,
  };
}
