/** The version of the canvas that a conversation uses, a draft of it, and the agent's newest version. */

import { useRef, useState } from "../vendor/preact.js";

/**
 * Keep a version and its draft. A version that is asked for later wins over one that arrives later.
 * @param {import("./api.js").Api} api @param {string} agent @param {(error: any) => void} report
 */
export function useVersion(api, agent, report) {
  const [version, setVersion] = useState(/** @type {any} */ (null));
  const [draft, setDraft] = useState(/** @type {import("./drafts.js").Draft | null} */ (null));
  const [newest, setNewest] = useState(/** @type {any} */ (null));
  const [saves, setSaves] = useState(0);
  const wanted = useRef("");
  const loadVersion = (/** @type {string} */ name) => {
    wanted.current = name;
    return api.request(api.path(agent, `versions/${name}?upgraded=true`)).then((found) => {
      if (found.is_draft) setNewest(found.dsl);
      if (wanted.current !== name) return;
      setVersion(found);
      setDraft({ base: found.dsl, dsl: found.dsl });
    }, report);
  };
  const saveDraft = async () => {
    await api.request(api.path(agent, "versions"), { body: { dsl: draft?.dsl } });
    setSaves(saves + 1);
    await loadVersion("draft");
  };
  const editDraft = (/** @type {any} */ dsl) => setDraft((known) => known && { ...known, dsl });
  return { version, draft, newest, saves, loadVersion, editDraft, saveDraft };
}
