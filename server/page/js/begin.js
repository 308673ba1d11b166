/** What a conversation begins with: the greeting and Begin's form, whose values go with every message. */

import { useEffect, useState } from "../vendor/preact.js";
import { initialValues } from "./forms.js";

/**
 * @typedef {{title: string, mode: string, prologue: string, fields: Record<string, any>, is_demo?: boolean,
 *   avatar?: string, translations?: import("./agent_titles.js").About["translations"]}} Begin
 */

/**
 * Return how the agent's conversations begin, null until it is known, and the values of the form.
 * @param {() => Promise<Begin>} load @param {any[]} causes What it is loaded again for.
 * @param {boolean} [isOffline] While it is not known, it is asked for again when the server comes back.
 * @returns {{begin: Begin | null, inputs: Record<string, any>, setInputs: (inputs: Record<string, any>) => void,
 *   isUnknown: boolean}} `isUnknown`: there is no such agent.
 */
export function useBegin(load, causes, isOffline = false) {
  const [begin, setBegin] = useState(/** @type {Begin | null} */ (null));
  const [inputs, setInputs] = useState(/** @type {Record<string, any>} */ ({}));
  const [isUnknown, setUnknown] = useState(false);
  useEffect(() => {
    let isCurrent = true;
    load().then((found) => {
      if (!isCurrent) return;
      setBegin(found);
      setInputs(initialValues(found.fields));
    }, ({ status }) => { if (isCurrent) setUnknown(status === 404); }); // a canvas that cannot run says so when it is started
    return () => { isCurrent = false; };
  }, [...causes, begin === null && isOffline]);
  return { begin, inputs, setInputs, isUnknown };
}
