/** A conversation as a file: Markdown for people, JSON for programs. */

import { citedChunks } from "./citations.js";
import { saveAs } from "./files.js";
import { t } from "./texts.js";

/** @param {string} text @returns {string} The text in one line, which Markdown shows as it is. */
function plainLine(text) {
  return text.replace(/\s+/g, " ").trim().replace(/[\\`*_{}[\]<>#|~!]/g, "\\$&");
}

/** @param {string} title @param {any[]} messages @returns {string} */
function toMarkdown(title, messages) {
  const parts = messages.map((message) => {
    const sources = Object.entries(citedChunks(message)).map(([number, chunk]) =>
      `- [ID:${number}] ${plainLine(String(chunk.document_name ?? t("source")))}`);
    const cited = sources.length ? `\n\n${t("source")}:\n\n${sources.join("\n")}` : "";
    const { rating, note } = message.feedback ?? {};
    const rated = rating ? `\n\n${t("rated")}: ${t(`rate-${rating}`)}${note ? ` – ${plainLine(note)}` : ""}` : "";
    const time = message.create_ms ? ` · ${new Date(message.create_ms).toISOString()}` : "";
    return `## ${t(message.role)}${time}\n\n${message.content}${cited}${rated}\n`;
  });
  return [`# ${plainLine(title)}\n`, ...parts].join("\n");
}

/**
 * Save a stored session.
 * @param {any} session As the native API returns it. @param {string} title @param {"md"|"json"} format
 */
export function saveConversation(session, title, format) {
  const { id, agent_id: agent, name, messages } = session;
  const text = format === "md" ? toMarkdown(name || title, messages)
    : JSON.stringify({ agent: { id: agent, title }, session: { id, name }, messages }, null, 2);
  saveAs(new Blob([text], { type: format === "md" ? "text/markdown" : "application/json" }), `${name || title}.${format}`);
}
