/** The canvas as the server draws it. Nodes show what the turn does; the picture can be moved and zoomed. */

import { html, useCallback, useEffect, useRef, useState } from "../vendor/preact.js";
import { cleanSvg } from "./markdown.js";
import { t } from "./texts.js";

/** @typedef {{x: number, y: number, width: number, height: number}} View */

const ZOOM = 1.2;
const MIN_WIDTH = 80;

/** @param {import("./api.js").Api} api @param {any} dsl @param {string} theme @returns {Promise<string>} */
async function draw(api, dsl, theme) {
  const response = await api.open(`native/v1/draw?format=svg&theme=${theme}`, { body: dsl });
  return cleanSvg(await response.text());
}

/** @returns {"dark"|"light"} The theme that the browser asks for. */
function readTheme() {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/**
 * Show the graph of a canvas beside a turn.
 * @param {{api: import("./api.js").Api, dsl: any, turn: import("./turn.js").Turn | null, selected: string,
 *   onSelect: (node: string) => void}} props
 */
export function Graph({ api, dsl, turn, selected, onSelect }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const [svg, setSvg] = useState("");
  const [problem, setProblem] = useState("");
  const [theme, setTheme] = useState(readTheme);
  const view = useRef(/** @type {View | null} */ (null));

  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setTheme(readTheme());
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);

  useEffect(() => {
    let isCurrent = true;
    draw(api, dsl, theme).then((text) => isCurrent && setSvg(text), (error) => isCurrent && setProblem(error.message));
    return () => { isCurrent = false; };
  }, [api, dsl, theme]);

  const show = useCallback((/** @type {View} */ next) => {
    view.current = next;
    picture(frame.current)?.setAttribute("viewBox", `${next.x} ${next.y} ${next.width} ${next.height}`);
  }, []);
  const fit = useCallback(() => {
    const whole = picture(frame.current);
    if (whole) show({ x: 0, y: 0, width: Number(whole.dataset.width), height: Number(whole.dataset.height) });
  }, [show]);

  useEffect(() => {
    const element = picture(frame.current);
    if (!element) return;
    element.dataset.width = element.getAttribute("width") ?? "100";
    element.dataset.height = element.getAttribute("height") ?? "100";
    element.removeAttribute("width");
    element.removeAttribute("height");
    for (const node of element.querySelectorAll("[data-node]")) {
      node.setAttribute("tabindex", "0");
      node.setAttribute("role", "button");
    }
    fit();
  }, [svg, fit]);

  useEffect(() => mark(picture(frame.current), turn, selected), [svg, turn, selected]);

  const zoom = (/** @type {number} */ factor, /** @type {{x: number, y: number} | undefined} */ at = undefined) => {
    const now = view.current;
    if (!now || (factor < 1 && now.width * factor < MIN_WIDTH)) return;
    const { x, y } = at ?? { x: now.x + now.width / 2, y: now.y + now.height / 2 };
    show({ x: x - (x - now.x) * factor, y: y - (y - now.y) * factor, width: now.width * factor, height: now.height * factor });
  };
  const wheel = (/** @type {WheelEvent} */ event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM, place(frame.current, event));
  };
  const drag = useDrag(frame, view, show);
  const choose = (/** @type {any} */ event) => {
    const node = event.target.closest?.("[data-node]")?.dataset.node;
    if (node && (event.type !== "keydown" || event.key === "Enter" || event.key === " ")) onSelect(node);
  };

  return html`<section class="graph" aria-label=${t("graph")}>
    <div class="tools">
      <button onClick=${() => zoom(1 / ZOOM)} aria-label="+">+</button>
      <button onClick=${() => zoom(ZOOM)} aria-label="−">−</button>
      <button onClick=${fit}>${t("fit")}</button>
      <${NodeSearch} frame=${frame} onSelect=${onSelect} />
    </div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <div class="picture" ref=${frame} onWheel=${wheel} onClick=${choose} onKeyDown=${choose} ...${drag}
      dangerouslySetInnerHTML=${{ __html: svg }}></div>
  </section>`;
}

/** @param {HTMLElement | null} frame @returns {SVGSVGElement | null} */
function picture(frame) {
  return frame?.querySelector("svg") ?? null;
}

/** @param {HTMLElement | null} frame @param {MouseEvent} event @returns {{x: number, y: number} | undefined} */
function place(frame, event) {
  const matrix = picture(frame)?.getScreenCTM();
  return matrix ? new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse()) : undefined;
}

/** @param {SVGSVGElement | null} svg @param {import("./turn.js").Turn | null} turn @param {string} selected */
function mark(svg, turn, selected) {
  if (!svg) return;
  for (const node of svg.querySelectorAll("[data-node]")) {
    const id = node.getAttribute("data-node") ?? "";
    const state = turn?.nodes[id];
    if (state) node.setAttribute("data-status", state.status);
    else node.removeAttribute("data-status");
    node.setAttribute("data-selected", String(id === selected));
  }
  for (const edge of svg.querySelectorAll("[data-from]")) {
    const [from, to] = [edge.getAttribute("data-from") ?? "", edge.getAttribute("data-to") ?? ""];
    edge.setAttribute("data-taken", String(Boolean(turn?.nodes[from] && turn.nodes[to])));
  }
}

/**
 * Return the handlers with which a pointer moves the picture.
 * @param {{current: HTMLElement | null}} frame @param {{current: View | null}} view @param {(view: View) => void} show
 */
function useDrag(frame, view, show) {
  const start = useRef(/** @type {{x: number, y: number} | null} */ (null));
  return {
    onPointerDown: (/** @type {PointerEvent} */ event) => { start.current = place(frame.current, event) ?? null; },
    onPointerMove: (/** @type {PointerEvent} */ event) => {
      const at = place(frame.current, event);
      if (!start.current || !at || !view.current || !(event.buttons & 1)) return;
      show({ ...view.current, x: view.current.x + start.current.x - at.x, y: view.current.y + start.current.y - at.y });
    },
    onPointerUp: () => { start.current = null; },
  };
}

/** @param {{frame: {current: HTMLElement | null}, onSelect: (node: string) => void}} props */
function NodeSearch({ frame, onSelect }) {
  const find = (/** @type {any} */ event) => {
    if (event.key !== "Enter") return;
    const text = event.target.value.toLowerCase();
    const nodes = [...(picture(frame.current)?.querySelectorAll("[data-node]") ?? [])];
    const found = text && nodes.find((node) => node.textContent?.toLowerCase().includes(text));
    if (found) onSelect(found.getAttribute("data-node") ?? "");
  };
  return html`<input type="search" placeholder=${t("search")} aria-label=${t("search")} onKeyDown=${find} />`;
}
