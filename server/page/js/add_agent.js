/** Adding an agent from a canvas file: what the check finds, then its title. */

import { html, useState } from "../vendor/preact.js";
import { shownTitle } from "./agent_titles.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";
import { OwnWords, Problem } from "./own_words.js";
import { language, meaningOf, t } from "./texts.js";

const SEVERITIES = ["error", "warning", "info"];
/** @type {Record<string, string>} */
const ICONS = { error: "circle-x", warning: "alert-triangle", info: "info" };

/** @typedef {{text: string, title: string, check: any}} Draft A file, and what the check finds in it. */

/** @param {import("./api.js").Api} api @param {File} file @returns {Promise<Draft>} */
export async function readCanvas(api, file) {
  const text = await file.text();
  const check = await api.request("native/v1/check", { text });
  return { text, title: readTitle(text) || shownTitle(file.name.replace(/\.json$/i, "")), check };
}

/** @param {string} text @returns {string} The title that an exported canvas has, if it has one. */
function readTitle(text) {
  try {
    const { title } = JSON.parse(text);
    const found = typeof title === "string" ? title : title?.[language()] ?? title?.en;
    return typeof found === "string" ? found : "";
  } catch {
    return ""; // the check says what is wrong with the file
  }
}

/** @param {any[]} found @returns {any[][]} Findings that say the same of several nodes are together; the worst come first. */
function groupFindings(found) {
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const each of found) {
    const names = [each.title, each.node].filter(Boolean);
    const same = names.reduce((text, name) => text.replaceAll(name, "…"), `${each.code} ${each.message}`);
    groups.set(same, [...(groups.get(same) ?? []), each]);
  }
  const rank = (/** @type {any[]} */ group) => SEVERITIES.indexOf(group[0].severity);
  return [...groups.values()].sort((first, second) => rank(first) - rank(second));
}

/**
 * @param {{api: import("./api.js").Api, draft: Draft, onClose: () => void,
 *   onOpen: (agent: string, about: import("./agent_titles.js").About) => void}} props
 */
export function AddDialog({ api, draft, onClose, onOpen }) {
  const [title, setTitle] = useState(draft.title);
  const [problem, setProblem] = useState("");
  const { runs, diagnostics } = draft.check;
  // An agent that lacks only MCP servers is added: its page says so until the settings have them.
  const errors = diagnostics.filter((/** @type {any} */ { severity }) => severity === "error");
  const canAdd = runs || errors.every((/** @type {any} */ { code }) => code === "mcp-server-unknown");
  const create = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      onOpen((await api.ragflow("agents", { body: { title, dsl: JSON.parse(draft.text) } })).id, { title });
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    }
  };
  return html`<${Dialog} label=${t("addAgent")} onClose=${onClose}><form class="add" onSubmit=${create}>
    <p class="verdict" data-runs=${runs}><${Icon} name=${runs ? "circle-check" : canAdd ? "alert-triangle" : "circle-x"} />
      <b>${t(runs ? "canRun" : canAdd ? "missing" : "cannotRun")}</b></p>
    ${canAdd && html`<div class="field"><label for="draft-title">${t("title")}</label>
      <input id="draft-title" autofocus value=${title} required onInput=${(/** @type {any} */ e) => setTitle(e.target.value)} /></div>`}
    ${diagnostics.length > 0 && html`<ul class="findings" aria-label=${t("findings")}>${groupFindings(diagnostics).map((group) => html`
      <${Finding} group=${group} />`)}</ul>`}
    <${Problem} text=${problem} />
    <footer class="row"><button type="button" onClick=${onClose}>${t("cancel")}</button>
      <button class="primary" disabled=${!canAdd}>${t("create")}</button></footer>
  </form><//>`;
}

/** @param {{group: any[]}} props */
function Finding({ group }) {
  const [{ severity, code, message, hint }] = group;
  const meaning = meaningOf("findings", code);
  const places = group.map(({ line, column, title }) => [title, line ? `${line}:${column}` : ""].filter(Boolean).join(" "));
  return html`<li data-severity=${severity}><${Icon} name=${ICONS[severity]} label=${t(`severity-${severity}`)} />
    <div>${meaning ? html`<${OwnWords} meaning=${meaning} text=${[message, hint].filter(Boolean).join(" ")} />`
      : html`<span>${message}</span>${hint && html`<span class="hint"> ${hint}</span>`}`}
      <span class="hint place"><code>${code}</code> ${places.filter(Boolean).join(", ")}</span></div></li>`;
}
