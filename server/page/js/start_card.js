/** How an agent is started that does not wait for a message: the address of its webhook, its schedules, and its last runs. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { talkTitle } from "./sessions.js";
import { CopyLine } from "./sharing.js";
import { language, t } from "./texts.js";

const MAX_RUNS = 5;

/** @param {import("./begin.js").Begin | null} begin @returns {boolean} Whether only calls of its address start an agent. */
export function isWebhook(begin) {
  return begin?.mode.toLowerCase() === "webhook";
}

/**
 * @param {{api: import("./api.js").Api, agent: string, begin: import("./begin.js").Begin | null, dsl: any,
 *   sessions: any[]}} props
 */
export function StartCard({ api, agent, begin, dsl, sessions }) {
  const [schedules, setSchedules] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    api.request(api.path(agent, "schedules")).then((listed) => setSchedules(listed.schedules), () => undefined);
  }, [api, agent]);
  if (!isWebhook(begin) && !schedules.length) return null;
  const methods = dsl?.components?.begin?.obj?.params?.methods;
  const address = `${location.origin}${location.pathname.replace(/\/(page)?$/, "")}/api/v1/agents/${agent}/webhook`;
  return html`<section class="needs" aria-label=${t("startedBy")}>
    ${isWebhook(begin) && html`<header><${Icon} name="webhook" />
        <h3>${t("webhookStarts", { methods: Array.isArray(methods) && methods.length ? methods.join(", ") : "POST" })}</h3></header>
      <${CopyLine} link=${address} />`}
    ${schedules.length > 0 && html`<header><${Icon} name="calendar-clock" /><h3>${t("scheduleStarts")}</h3></header>
      <ul>${schedules.map(({ id, cron, next_ms: next }) => html`<li key=${id} class="need need-row"><code>${cron}</code>
        <span class="hint">${next.length > 0 && t("nextAt", { time: new Date(next[0]).toLocaleString(language()) })}</span></li>`)}</ul>`}
    ${begin?.mode !== "conversational" && sessions.length > 0 && html`<header><h3>${t("lastRuns")}</h3></header>
      <ul>${sessions.slice(0, MAX_RUNS).map((row) => html`<li key=${row.id} class="need need-row">
        <a href=${`#/${encodeURIComponent(agent)}/${encodeURIComponent(row.id)}`}>${talkTitle(row)}</a>
        <span class="hint">${new Date(row.update_ms).toLocaleString(language())} · ${t(row.status || "succeeded")}</span></li>`)}</ul>`}
  </section>`;
}
