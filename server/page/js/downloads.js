/** What a reader can take away of a conversation: the events of a run, and the session as a run file. */

import { saveAs } from "./files.js";
import { t } from "./texts.js";

/**
 * Return functions that download. They raise what the server answers, in words.
 * @param {import("./api.js").Api} api @param {string} agent
 */
export function makeDownloads(api, agent) {
  return {
    events: async (/** @type {string} */ runId) => {
      const lines = [];
      try {
        for await (const frame of api.frames(api.path(agent, `runs/${runId}/events?records=true`), {})) {
          lines.push(`${JSON.stringify({ id: frame.id, event: frame.event, ...frame.data })}\n`);
        }
      } catch (/** @type {any} */ error) {
        throw error.status === 410 ? new Error(t("eventsGone")) : error;
      }
      saveAs(new Blob(lines, { type: "application/jsonl" }), `${runId}.jsonl`);
    },
    runFile: async (/** @type {string} */ session) => {
      const response = await api.open(api.path(agent, `sessions/${session}/run-file`));
      saveAs(await response.blob(), `${session}.html`);
    },
  };
}
