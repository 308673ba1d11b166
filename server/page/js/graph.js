/** The graph of a canvas, as the server draws it: nodes show what the turn does; the picture moves, zooms and is searched. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { countSeconds, markGraph } from "./graph_marks.js";
import { GraphView, TOOLS_PX } from "./graph_view.js";
import { Icon } from "./icons.js";
import { cleanSvg } from "./markdown.js";
import { Minimap } from "./minimap.js";
import { Problem } from "./own_words.js";
import { language, t } from "./texts.js";
import { readTheme, watchTheme } from "./theme.js";

const STEP_PX = 60;
const ZOOM = 1.25;

/** @typedef {{label: string, icon: string, onSelect: () => void, isDisabled?: boolean}} Action With the selected node. */

/**
 * Return a function that asks the server for the drawing of a canvas.
 * @param {import("./api.js").Api} api @param {any} dsl @returns {(theme: string) => Promise<string>}
 */
export function useDrawing(api, dsl) {
  return useMemo(() => async (/** @type {string} */ theme) => {
    // Down, if the canvas says nothing: the frame beside the chat is narrow.
    const path = `native/v1/draw?format=svg&layout=editor&direction=down&theme=${theme}`;
    const response = await api.open(path, { body: dsl });
    return response.text();
  }, [api, dsl]);
}

/**
 * Show the graph of a canvas beside a turn. `read` returns the drawing in a theme; `actions` stand at the selected node.
 * @param {{read: (theme: string) => Promise<string>, turn: import("./turn.js").Turn | null, selected: string,
 *   onSelect: (node: string) => void, actions?: Action[]}} props
 */
export function Graph({ read, turn, selected, onSelect, actions = [] }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const [svg, setSvg] = useState(/** @type {SVGSVGElement | null} */ (null));
  const [problem, setProblem] = useState("");
  const [theme, setTheme] = useState(readTheme);
  const [view, setView] = useState(/** @type {GraphView | null} */ (null));

  useEffect(() => watchTheme(() => setTheme(readTheme())), []);
  useEffect(() => {
    let isCurrent = true;
    read(theme).then((text) => isCurrent && setSvg(cleanSvg(text)), (error) => isCurrent && setProblem(error.message));
    return () => { isCurrent = false; };
  }, [read, theme]);
  useEffect(() => {
    if (!frame.current || !svg) return undefined;
    frame.current.firstElementChild?.replaceChildren(svg);
    const made = new GraphView(frame.current, svg);
    setView(made);
    return () => made.close();
  }, [svg]);
  const marked = [view, turn?.visits, turn?.nodes, turn?.calls, turn?.status, selected, language()];
  useEffect(() => { if (view) markGraph(view, turn, selected); }, marked);
  useEffect(() => { view?.choose(selected); }, [view, selected]);
  const isRunning = turn?.status === "running";
  useEffect(() => {
    if (!view || !isRunning) return undefined;
    const timer = setInterval(() => countSeconds(view), 1000);
    return () => clearInterval(timer);
  }, [view, isRunning]);

  const choose = (/** @type {any} */ event) => {
    const node = event.target.closest?.("[data-node]")?.dataset.node;
    if (node && !view?.hasDragged) onSelect(node);
  };
  const find = (/** @type {string} */ text) => {
    const found = text && view?.find(text);
    if (!found || !view) return;
    view.reveal(found);
    onSelect(found);
  };
  return html`<section class="graph" aria-label=${t("graph")}>
    <${Problem} text=${problem} />
    <div class="stage">
      ${view && html`<${Tools} view=${view} onFind=${find} />`}
      <div class="picture" ref=${frame} tabindex="0" role="group" aria-label=${t("graphKeys")} onClick=${choose}
        onKeyDown=${(/** @type {any} */ event) => view && press(view, event, onSelect)}>
        <div class="sheet"></div></div>
      ${!svg && !problem && html`<div class="skeleton" role="status" aria-label=${t("loading")}></div>`}
      ${view && selected && actions.length > 0 && html`<${NodeActions} key=${selected} view=${view} node=${selected}
        actions=${actions} />`}
      ${view && html`<${Minimap} view=${view} />`}
    </div>
  </section>`;
}

/** @param {{view: GraphView, onFind: (text: string) => void}} props What moves the picture, over its lower edge. */
function Tools({ view, onFind }) {
  const [isSearching, setSearching] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => { if (isSearching) field.current?.focus(); }, [isSearching]);
  const press = (/** @type {any} */ event) => {
    if (event.key === "Enter") onFind(event.target.value);
    else if (event.key === "Escape") setSearching(false);
  };
  /** @type {[string, string, () => void][]} */
  const tools = [
    ["zoomIn", "zoom-in", () => view.zoom(ZOOM)], ["zoomOut", "zoom-out", () => view.zoom(1 / ZOOM)],
    ["fit", "scan", () => view.fit()], ["follow", "locate-fixed", () => view.begin()],
  ];
  return html`<div class="tools" role="toolbar" aria-label=${t("graphTools")}>
    ${tools.map(([name, icon, onClick]) => html`<button key=${name} type="button" aria-label=${t(name)} title=${t(name)}
      onClick=${onClick}><${Icon} name=${icon} /></button>`)}
    <button type="button" aria-label=${t("searchNode")} title=${t("searchNode")} aria-expanded=${isSearching}
      onClick=${() => setSearching(!isSearching)}><${Icon} name="search" /></button>
    ${isSearching && html`<input type="search" ref=${field} placeholder=${t("searchNode")} aria-label=${t("searchNode")} onKeyDown=${press} />`}
  </div>`;
}

/** @param {{view: GraphView, node: string, actions: Action[]}} props The bar below a node moves with the picture. */
function NodeActions({ view, node, actions }) {
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const place = () => {
      const box = view.boxes.get(node);
      if (!box || !bar.current) return;
      const x = Math.max(0, Math.min(view.x + box.x * view.scale, view.frame.clientWidth - bar.current.offsetWidth));
      const below = view.y + (box.y + box.height) * view.scale + 6;
      const y = Math.max(0, Math.min(below, view.frame.clientHeight - TOOLS_PX - bar.current.offsetHeight));
      bar.current.style.transform = `translate(${x}px, ${y}px)`;
    };
    view.listeners.add(place);
    place();
    return () => { view.listeners.delete(place); };
  }, [view, node, actions.length]);
  return html`<div class="node-actions" role="toolbar" aria-label=${t("nodeActions")} ref=${bar}>${actions.map((action) =>
    html`<button type="button" key=${action.label} disabled=${action.isDisabled} aria-label=${action.label} title=${action.label}
      onClick=${action.onSelect}><${Icon} name=${action.icon} /></button>`)}</div>`;
}

/**
 * Handle a key in the picture: arrows move it or, from a node, go to the next node; + and − zoom; 0 shows everything.
 * @param {GraphView} view @param {any} event @param {(node: string) => void} onSelect
 */
function press(view, event, onSelect) {
  const node = event.target.closest?.("[data-node]");
  /** @type {Record<string, [number, number]>} */
  const arrows = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const [across, down] = arrows[event.key] ?? [0, 0];
  if (node && (event.key === "Enter" || event.key === " ")) onSelect(node.dataset.node);
  else if (node && (across || down)) view.focusNext(node, across + down < 0 ? 1 : -1);
  else if (across || down) view.move(across * STEP_PX, down * STEP_PX);
  else if (event.key === "+") view.zoom(ZOOM);
  else if (event.key === "-") view.zoom(1 / ZOOM);
  else if (event.key === "0") view.fit();
  else return;
  event.preventDefault();
}
