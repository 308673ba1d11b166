/** What went wrong last in a conversation. */

import { useEffect, useRef, useState } from "../vendor/preact.js";

/** How long a reader sees that the server could not be reached, when it is back. */
const READ_MS = 3000;

/** @param {boolean} isOffline Return the last problem, and how to say one. */
export function useProblem(isOffline) {
  const [problem, setProblem] = useState("");
  const unreached = useRef("");
  const report = (/** @type {any} */ error) => {
    if (error.code === "unreachable") unreached.current = error.message;
    setProblem(error.message);
  };
  useEffect(() => {
    if (isOffline || !problem || problem !== unreached.current) return undefined;
    const timer = setTimeout(() => setProblem(""), READ_MS);
    return () => clearTimeout(timer);
  }, [isOffline, problem]);
  return { problem, setProblem, report };
}
