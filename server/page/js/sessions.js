/** The conversations of an agent: as many as the reader has asked for, looked at again from time to time. */

import { useCallback, useEffect, useRef, useState } from "../vendor/preact.js";
import { stopRun } from "./runs.js";
import { language, t } from "./texts.js";
import { moveUnsent, readUnsent } from "./unsent.js";

const PAGE = 100;
const LOOK_MS = 10_000;
/** The problem of a conversation that has been deleted, or never was. */
export const GONE = "gone";

/** @param {string} text @returns {string} A text in one line, without the signs of Markdown. */
export function plain(text) {
  return text.replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/(\*\*|__|`+)(.+?)\1/g, "$2").replace(/^[\s>#]+/, "")
    .replace(/\s+/g, " ").trim();
}

/** @param {any} row A conversation, as the server lists it. @returns {string} Its name; without one, when it began. */
export function talkTitle(row) {
  return plain(row.name) || `${t("conversation")}, ${new Date(row.create_ms).toLocaleString(language(), { dateStyle: "medium", timeStyle: "short" })}`;
}

/**
 * Return the conversations of an agent, and how to change them.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} session The open one, or "".
 * @param {(session: string) => void} onSession @param {() => void} onGone Is called before the reader leaves a conversation
 *   that somebody else has deleted.
 */
export function useSessions(api, agent, session, onSession, onGone) {
  const [list, setList] = useState({ sessions: /** @type {any[]} */ ([]), hasMore: false, isShareable: false });
  const [known, setKnown] = useState(/** @type {any} */ (null));
  const pages = useRef(1);
  const newest = useRef(0);
  const seen = useRef(""); // the open conversation, if the last list has had it
  const removed = useRef(/** @type {Set<string>} */ (new Set())); // by the reader, who does not miss them
  const open = useRef(session);
  open.current = session;
  useEffect(() => () => { open.current = ""; }, []);

  const listSessions = useCallback(async () => {
    const asked = ++newest.current;
    /** @type {Map<string, any>} */
    const rows = new Map();
    let hasMore = true;
    let isShareable = false;
    for (let page = 1; hasMore && page <= pages.current; page++) {
      const part = await api.request(api.path(agent, `sessions?page=${page}&page_size=${PAGE}`)).catch(() => null);
      if (!part || asked !== newest.current) return;
      for (const row of part.sessions) rows.set(row.id, row);
      hasMore = page * PAGE < part.total;
      isShareable = part.shareable;
    }
    setList({ sessions: [...rows.values()], hasMore, isShareable });
    const id = open.current;
    const isHere = rows.has(id) || removed.current.has(id);
    const isLost = id && seen.current === id && !isHere;
    seen.current = isHere ? id : "";
    const path = api.path(agent, `sessions/${id}/pauses`);
    if (isLost && await api.request(path).catch(({ status }) => status) === 404 && open.current === id) {
      moveUnsent(`${agent}/${id}`, `${agent}/`);
      onGone();
      onSession("");
    }
  }, [api, agent]);
  useLooking(listSessions);

  /** Keep what is known of the open conversation. */
  const note = (/** @type {any} */ row) => { if (row.id === open.current) setKnown(row); };
  const more = () => {
    pages.current += 1;
    return listSessions();
  };
  const change = async (/** @type {string} */ id, /** @type {any} */ body) => {
    note(await api.request(api.path(agent, `sessions/${id}`), { method: "PATCH", body }));
    await listSessions();
  };
  const remove = async (/** @type {string} */ id, isRunning = false) => {
    const removal = () => api.request(api.path(agent, `sessions/${id}`), { method: "DELETE" });
    removed.current.add(id);
    await (isRunning ? stopRun(api, agent, id).then(removal) : removal()).catch((error) => {
      removed.current.delete(id);
      throw error;
    });
    readUnsent().delete(`${agent}/${id}`);
    if (open.current === id) onSession("");
    await listSessions();
  };
  /** The open conversation; it may be older than those that are listed. */
  const own = session ? list.sessions.find(({ id }) => id === session) ?? (known?.id === session ? known : null) : null;
  return { ...list, own, note, listSessions, more, change, remove };
}

/** @param {() => void} look Is called at first, then at times while somebody sees the page, and when somebody comes back. */
function useLooking(look) {
  useEffect(() => {
    const visit = () => { if (document.visibilityState === "visible") look(); };
    look();
    const timer = setInterval(visit, LOOK_MS);
    addEventListener("focus", visit);
    return () => {
      clearInterval(timer);
      removeEventListener("focus", visit);
    };
  }, [look]);
}
