/** The list of agents: the reader's own, then the examples. A canvas file that is dropped anywhere is offered to be added. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { AddDialog, readCanvas } from "./add_agent.js";
import { shownTexts } from "./agent_titles.js";
import { Icon } from "./icons.js";
import { Problem } from "./own_words.js";
import { language, t } from "./texts.js";

/** @type {Record<string, string>} */
const ICONS = { chat: "message-square", form: "form-input", task: "play", webhook: "webhook", schedule: "calendar-clock" };
/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["year", 31_536_000], ["month", 2_592_000], ["day", 86_400], ["hour", 3600], ["minute", 60]];
const FRAMES = [1, 2, 3, 4, 5, 6];
/** The size of a node in the drawing, in the editor's pixels. */
const NODE = { width: 200, height: 64 };
/** What a drawing has room for, so that all have the same scale, except those of larger canvases. */
const LEAST = { width: 1800, height: 400 };

/** @param {number} ms @returns {string} How long ago this was, in words. */
function ago(ms) {
  const seconds = (Date.now() - ms) / 1000;
  const [unit, size] = UNITS.find((each) => seconds >= each[1]) ?? ["minute", Infinity];
  return new Intl.RelativeTimeFormat(language(), { numeric: "auto" }).format(-Math.floor(seconds / size) || 0, unit);
}

/** @param {{api: import("./api.js").Api, onOpen: (agent: string, about: import("./agent_titles.js").About) => void}} props */
export function Agents({ api, onOpen }) {
  const [agents, setAgents] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState("");
  const [wanted, setWanted] = useState("");
  const [draft, setDraft] = useState(/** @type {import("./add_agent.js").Draft | null} */ (null));

  useEffect(() => { api.agents().then(setAgents, (error) => setProblem(error.message)); }, [api]);
  const lacks = useLacks(api, agents);
  const read = async (/** @type {File | undefined} */ file) => {
    if (!file) return;
    setProblem("");
    try {
      setDraft(await readCanvas(api, file));
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    }
  };
  const isOver = useDrop(read);
  const text = wanted.trim().toLowerCase();
  const shown = (agents ?? []).filter((agent) => [agent.title, ...Object.values(shownTexts(agent))].join(" ").toLowerCase().includes(text));
  const own = shown.filter((agent) => !agent.is_example);
  const examples = shown.filter((agent) => agent.is_example);
  const add = html`<label class="button primary"><${Icon} name="plus" />${t("add")}<input class="hidden" type="file"
    accept=".json,application/json" onChange=${(/** @type {any} */ e) => { read(e.target.files[0]); e.target.value = ""; }} /></label>`;
  const isEmpty = agents && !agents.some((agent) => !agent.is_example);

  return html`<main class="agents" data-over=${isOver}>
    <header><h1>${t("agents")}</h1>
      <input type="search" placeholder=${t("search")} aria-label=${t("search")} value=${wanted}
        onInput=${(/** @type {any} */ e) => setWanted(e.target.value)} />${!isEmpty && add}</header>
    ${!isEmpty && html`<p class="hint">${t("addHint")}</p>`}
    <${Problem} text=${problem} />
    ${!agents && !problem && html`<ul class="cards" aria-busy="true" aria-label=${t("loading")}>${FRAMES.map((each) => html`
      <li key=${each} class="card frame"></li>`)}</ul>`}
    ${isEmpty && html`<div class="drop-place"><${Icon} name="file" /><p>${t("dropExport")}</p>${add}</div>`}
    <${Cards} title=${examples.length ? t("ownAgents") : ""} agents=${own} lacks=${lacks} onOpen=${onOpen} />
    <${Cards} title=${t("exampleAgents")} agents=${examples} lacks=${lacks} onOpen=${onOpen} />
    ${text && agents && !shown.length && html`<p class="hint" role="status">${t("nothingFound")}</p>`}
    ${draft && html`<${AddDialog} api=${api} draft=${draft} onClose=${() => setDraft(null)} onOpen=${onOpen} />`}
  </main>`;
}

/**
 * Take the file that is dropped anywhere on the page.
 * @param {(file: File | undefined) => void} onFile @returns {boolean} Whether a file is held over the page.
 */
function useDrop(onFile) {
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const over = (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      setOver(true);
    };
    const leave = (/** @type {DragEvent} */ event) => { if (!event.relatedTarget) setOver(false); };
    const drop = (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      setOver(false);
      onFile(event.dataTransfer?.files[0]);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  });
  return isOver;
}

/**
 * Ask for each agent what it needs from outside, one after the other: no card waits for that.
 * @param {import("./api.js").Api} api @param {any[] | null} agents
 * @returns {Record<string, number>} How much is missing, by agent.
 */
function useLacks(api, agents) {
  const [lacks, setLacks] = useState(/** @type {Record<string, number>} */ ({}));
  useEffect(() => {
    let isShown = true;
    const ask = async () => {
      for (const { id } of agents ?? []) {
        const needs = await api.request(api.path(id, "needs"))
          .catch(({ details }) => details?.diagnostics && { missing: details.diagnostics });
        if (!isShown) return;
        const missing = needs?.missing.filter((/** @type {any} */ { state, code }) => state === "missing" || code === "mcp-server-unknown");
        if (needs) setLacks((known) => ({ ...known, [id]: needs.ready ? 0 : missing.length }));
      }
    };
    ask();
    return () => { isShown = false; };
  }, [api, agents]);
  return lacks;
}

/**
 * @param {{title: string, agents: any[], lacks: Record<string, number>,
 *   onOpen: (agent: string, about: import("./agent_titles.js").About) => void}} props
 */
function Cards({ title, agents, lacks, onOpen }) {
  if (!agents.length) return null;
  return html`${title && html`<h2>${title}</h2>`}
    <ul class="cards">${agents.map((agent) => html`<li key=${agent.id}><${Card} agent=${agent} lacks=${lacks[agent.id] ?? 0} onOpen=${onOpen} /></li>`)}</ul>`;
}

/** @param {{agent: any, lacks: number, onOpen: Parameters<typeof Agents>[0]["onOpen"]}} props */
function Card({ agent, lacks, onOpen }) {
  const { title, description } = shownTexts(agent);
  const facts = [t(`kind-${agent.kind}`)];
  if (agent.sessions) facts.push(`${agent.sessions} ${t(agent.sessions === 1 ? "oneTalk" : "talks")}`, ago(agent.last_use_ms));
  return html`<button type="button" class="card" onClick=${() => onOpen(agent.id, agent)}>
    <${Sketch} nodes=${agent.nodes} edges=${agent.edges} />
    <b>${agent.picture && html`<img src=${agent.picture} alt="" width="20" height="20" />`}${title}</b>
    ${description && html`<span class="about">${description}</span>`}
    <span class="facts"><${Icon} name=${ICONS[agent.kind]} /><span>${facts.join(" · ")}</span>
      ${lacks > 0 && html`<span class="state" data-state="missing"><${Icon} name="alert-triangle" />${t("lacks", { count: lacks })}</span>`}
    </span></button>`;
}

/** Draw where the nodes are, without texts. @param {{nodes: [number, number][], edges: [number, number][]}} props */
function Sketch({ nodes, edges }) {
  const xs = nodes.map(([x]) => x);
  const ys = nodes.map(([, y]) => y);
  const [left, top] = [Math.min(...xs) - 4, Math.min(...ys) - 4];
  const tall = Math.max(...ys) + NODE.height + 4 - top;
  const [width, height] = [Math.max(Math.max(...xs) + NODE.width + 4 - left, LEAST.width), Math.max(tall, LEAST.height)];
  if (!nodes.length) return html`<svg class="sketch" aria-hidden="true"></svg>`;
  return html`<svg class="sketch" viewBox=${`${left} ${top - (height - tall) / 2} ${width} ${height}`} preserveAspectRatio="xMinYMid meet" aria-hidden="true">
    ${edges.map(([from, to]) => {
      const [x1, y1] = [nodes[from][0] + NODE.width, nodes[from][1] + NODE.height / 2];
      const [x2, y2] = [nodes[to][0], nodes[to][1] + NODE.height / 2];
      const bend = Math.max(40, Math.abs(x2 - x1) / 2);
      return html`<path d=${`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} />`;
    })}
    ${nodes.map(([x, y], at) => html`<rect x=${x} y=${y} width=${NODE.width} height=${NODE.height} rx="14" data-first=${at === 0} />`)}
  </svg>`;
}
