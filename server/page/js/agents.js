/** The list of agents, and adding one from a canvas file: its findings first. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { t } from "./texts.js";

/** @param {{api: import("./api.js").Api, onOpen: (agent: string) => void}} props */
export function Agents({ api, onOpen }) {
  const [agents, setAgents] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState("");
  const [wanted, setWanted] = useState("");
  const [draft, setDraft] = useState(/** @type {any} */ (null));

  const load = () => api.agents().then(setAgents, (error) => setProblem(error.message));
  useEffect(() => { load(); }, [api]);

  const read = async (/** @type {File | undefined} */ file) => {
    if (!file) return;
    setProblem("");
    try {
      const text = await file.text();
      setDraft({ text, title: file.name.replace(/\.json$/i, ""), check: await api.request("native/v1/check", { text }) });
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    }
  };
  const drop = (/** @type {any} */ event) => {
    event.preventDefault();
    read(event.dataTransfer?.files[0]);
  };
  const create = async () => {
    try {
      const agent = await api.ragflow("agents", { body: { title: draft.title, dsl: JSON.parse(draft.text) } });
      onOpen(agent.id);
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    }
  };
  const shown = (agents ?? []).filter((agent) => agent.title.toLowerCase().includes(wanted.toLowerCase()));

  return html`<main class="agents" onDragOver=${(/** @type {Event} */ e) => e.preventDefault()} onDrop=${drop}>
    <h1>${t("agents")}</h1>
    <div class="row">
      <input type="search" placeholder=${t("search")} aria-label=${t("search")} value=${wanted}
        onInput=${(/** @type {any} */ e) => setWanted(e.target.value)} />
      <label class="button primary">${t("add")}<input class="hidden" type="file" accept=".json,application/json"
        onChange=${(/** @type {any} */ e) => read(e.target.files[0])} /></label>
    </div>
    <p class="hint">${t("addHint")}</p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${draft && html`<${Draft} draft=${draft} onTitle=${(/** @type {string} */ title) => setDraft({ ...draft, title })}
      onCreate=${create} onCancel=${() => setDraft(null)} />`}
    ${agents && !agents.length && html`<p>${t("noAgents")}</p>`}
    <ul class="cards">
      ${shown.map((agent) => html`<li key=${agent.id}><button class="card" onClick=${() => onOpen(agent.id)}>
        <b>${agent.title}</b>
        ${agent.description && html`<span>${agent.description}</span>`}
        ${agent.tags && html`<span class="tags">${agent.tags}</span>`}
        <time>${new Date(agent.update_time).toLocaleString()}</time></button></li>`)}
    </ul>
  </main>`;
}

/** @param {{draft: any, onTitle: (title: string) => void, onCreate: () => void, onCancel: () => void}} props */
function Draft({ draft, onTitle, onCreate, onCancel }) {
  const { runs, diagnostics } = draft.check;
  const warnings = diagnostics.filter((/** @type {any} */ found) => found.severity === "warning").length;
  return html`<section class="draft" aria-label=${t("findings")}>
    <div class="field"><label for="draft-title">${t("title")}</label>
      <input id="draft-title" value=${draft.title} onInput=${(/** @type {any} */ e) => onTitle(e.target.value)} /></div>
    <p>${runs ? t("canRun") : t("cannotRun")}${warnings ? ` ${t("warnings")}: ${warnings}` : ""}</p>
    <ul class="findings">${diagnostics.map((/** @type {any} */ found) => html`<li data-severity=${found.severity}>
      <code>${found.code}</code> ${found.line ? `${found.line}:${found.column} ` : ""}${found.message}
      ${found.hint ? html`<em> ${found.hint}</em>` : ""}</li>`)}</ul>
    <div class="row"><button class="primary" disabled=${!runs} onClick=${onCreate}>${t("create")}</button>
      <button onClick=${onCancel}>${t("cancel")}</button></div>
  </section>`;
}
