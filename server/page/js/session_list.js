/** The conversations of an agent in groups, with a search in their names and messages. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { ConversationMenu } from "./conversation_menu.js";
import { Icon } from "./icons.js";
import { plain, talkTitle } from "./sessions.js";
import { language, t } from "./texts.js";

const TYPING_MS = 250;
/** The states that a row shows: a name in the texts, and an icon. */
/** @type {Record<string, [string, string]>} */
const STATES = {
  running: ["running", "loader"], waiting: ["waitsForYou", "pause"], failed: ["failed", "circle-x"],
  interrupted: ["interrupted", "alert-triangle"],
};

/**
 * @param {{api: import("./api.js").Api, agent: string, talks: ReturnType<typeof import("./sessions.js").useSessions>,
 *   session: string, changes: import("./conversation_menu.js").Changes,
 *   isBehind: boolean, onSession: (session: string) => void}} props
 */
export function SessionList({ api, agent, talks, session, changes, isBehind, onSession }) {
  const [wanted, setWanted] = useState("");
  const text = wanted.trim().toLowerCase();
  const found = useFound(api, agent, wanted.trim(), talks.sessions);
  const named = talks.sessions.filter((row) => talkTitle(row).toLowerCase().includes(text));
  const excerpts = new Map(found.map(({ id, excerpt }) => [id, excerpt]));
  const first = useRef(/** @type {HTMLElement | null} */ (null));
  const remove = (/** @type {string} */ id, isRunning = false) => changes.remove(id, isRunning)
    .then(() => { setTimeout(() => first.current?.focus()); }); // its row goes, and its dialog closes before that
  const shown = [...named, ...found.filter((each) => !named.some(({ id }) => id === each.id))];
  const titles = shown.map(talkTitle);
  const doubled = new Set(titles.filter((title, at) => titles.indexOf(title) < at));
  return html`<nav class="sessions" aria-label=${t("sessions")} inert=${isBehind}>
    <button type="button" class="primary" ref=${first} onClick=${() => onSession("")}><${Icon} name="plus" /> ${t("newSession")}</button>
    <input type="search" placeholder=${t("search")} aria-label=${t("searchSessions")} value=${wanted}
      onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} />
    ${inGroups(shown).map(([group, rows]) => html`<section key=${group} aria-labelledby=${`talks-${group}`}>
      <h2 id=${`talks-${group}`}>${t(group)}</h2>
      <ul>${rows.map((row) => html`<${Row} key=${row.id} agent=${agent} row=${row} isOpen=${row.id === session} text=${text}
        excerpt=${excerpts.get(row.id) ?? ""} isDouble=${doubled.has(talkTitle(row))} changes=${{ ...changes, remove }} onSession=${onSession} />`)}</ul></section>`)}
    ${text && !shown.length && html`<p class="hint" role="status">${t("nothingFound")}</p>`}
    ${!text && talks.hasMore && html`<${More} key=${talks.sessions.length} onMore=${talks.more} />`}
  </nav>`;
}

/**
 * Return the conversations with messages that contain a text, as the server finds them.
 * @param {import("./api.js").Api} api @param {string} agent @param {string} text @param {any[]} sessions
 * @returns {any[]}
 */
function useFound(api, agent, text, sessions) {
  const [found, setFound] = useState({ text: "", rows: /** @type {any[]} */ ([]) });
  useEffect(() => {
    if (!text) return undefined;
    let isCurrent = true;
    const timer = setTimeout(() => {
      const query = new URLSearchParams({ keywords: text.slice(0, 255), page_size: "100" });
      api.request(api.path(agent, `sessions?${query}`))
        .then((answer) => isCurrent && setFound({ text, rows: answer.sessions }), () => undefined);
    }, TYPING_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [api, agent, text, sessions]);
  return text && found.text === text ? found.rows : [];
}

/** @param {any[]} rows @returns {[string, any[]][]} The conversations by pin and by day, the last used ones first. */
function inGroups(rows) {
  const today = new Date().setHours(0, 0, 0, 0);
  const yesterday = new Date(today - 1).setHours(0, 0, 0, 0);
  /** @type {Record<string, any[]>} */
  const groups = { pinned: [], today: [], yesterday: [], earlier: [] };
  for (const row of [...rows].sort((a, b) => b.update_ms - a.update_ms)) {
    const group = row.pinned ? "pinned" : row.update_ms >= today ? "today" : row.update_ms >= yesterday ? "yesterday" : "earlier";
    groups[group].push(row);
  }
  return Object.entries(groups).filter(([, those]) => those.length);
}

/**
 * @param {{agent: string, row: any, isOpen: boolean, text: string, excerpt: string,
 *   isDouble: boolean, changes: import("./conversation_menu.js").Changes, onSession: (session: string) => void}} props
 */
function Row({ agent, row, isOpen, text, excerpt, isDouble, changes, onSession }) {
  const title = talkTitle(row);
  const [state, icon] = STATES[row.status] ?? ["", ""];
  const time = new Date(row.update_ms).toLocaleString(language());
  const isInName = title.toLowerCase().includes(text);
  const open = (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    onSession(row.id);
  };
  return html`<li>
    <a href=${`#/${encodeURIComponent(agent)}/${encodeURIComponent(row.id)}`} aria-current=${isOpen ? "page" : undefined}
      title=${`${title}\n${time}`} onClick=${open}>
      <span class="talk-name" dir="auto"><${Marked} content=${title} text=${text} /></span>
      ${state && html`<span class="talk-state" data-status=${row.status} title=${t(state)}><${Icon} name=${icon} label=${t(state)} /></span>`}
      ${text && excerpt && !isInName && html`<small class="excerpt" dir="auto"><${Marked} content=${plain(excerpt)} text=${text} /></small>`}
      ${isDouble && html`<small class="excerpt">${time}</small>`}</a>
    <${ConversationMenu} label=${`${t("menu")}: ${title}`} row=${row} changes=${changes} /></li>`;
}

/** Show a content, with what was searched marked in it. @param {{content: string, text: string}} props */
function Marked({ content, text }) {
  const at = text ? content.toLowerCase().indexOf(text) : -1;
  if (at < 0) return content;
  const end = at + text.length;
  return html`${content.slice(0, at)}<mark>${content.slice(at, end)}</mark>${content.slice(end)}`;
}

/** Show older conversations when the reader comes to the end of the list. @param {{onMore: () => void}} props */
function More({ onMore }) {
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const observer = new IntersectionObserver((seen) => { if (seen.some(({ isIntersecting }) => isIntersecting)) onMore(); });
    if (button.current) observer.observe(button.current);
    return () => observer.disconnect();
  }, []);
  return html`<button type="button" class="quiet" ref=${button} onClick=${onMore}>${t("moreTalks")}</button>`;
}
