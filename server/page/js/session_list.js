/** The conversations of an agent, with a search in their names and messages. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { t } from "./texts.js";

const TYPING_MS = 250;

/**
 * @param {{api: import("./api.js").Api, agent: string, sessions: any[], session: string,
 *   onSession: (session: string) => void}} props
 */
export function SessionList({ api, agent, sessions, session, onSession }) {
  const [wanted, setWanted] = useState("");
  const [found, setFound] = useState(/** @type {any[]} */ ([]));
  const text = wanted.trim().toLowerCase();

  useEffect(() => {
    setFound([]);
    if (!text) return undefined;
    let isCurrent = true;
    const timer = setTimeout(() => {
      const query = new URLSearchParams({ keywords: wanted.trim().slice(0, 255), page_size: "100" });
      api.request(api.path(agent, `sessions?${query}`)).then((answer) => isCurrent && setFound(answer.sessions), () => undefined);
    }, TYPING_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [api, agent, text, sessions]);

  const named = sessions.filter((each) => (each.name || each.id).toLowerCase().includes(text));
  const shown = [...named, ...found.filter((each) => !named.some(({ id }) => id === each.id))];
  return html`<nav class="sessions" aria-label=${t("sessions")}>
    <button class="primary" onClick=${() => onSession("")}>${t("newSession")}</button>
    <input type="search" placeholder=${t("search")} aria-label=${t("searchSessions")} value=${wanted}
      onInput=${(/** @type {any} */ e) => setWanted(e.target.value)} />
    <ul>${shown.map((each) => html`<li key=${each.id}><button aria-current=${each.id === session ? "true" : undefined}
      title=${each.create_ms ? new Date(each.create_ms).toLocaleString() : ""} onClick=${() => onSession(each.id)}>${each.name || each.id}</button></li>`)}</ul>
    ${text && !shown.length && html`<p class="hint" role="status">${t("nothingFound")}</p>`}
  </nav>`;
}
