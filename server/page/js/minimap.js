/** A small map of a graph that shows which part the frame shows. A click or a drag goes to another part. */

import { html, useEffect, useRef } from "../vendor/preact.js";

/** @param {{view: import("./graph_view.js").GraphView}} props */
export function Minimap({ view }) {
  const map = useRef(/** @type {SVGSVGElement | null} */ (null));
  const part = useRef(/** @type {SVGRectElement | null} */ (null));
  useEffect(() => {
    const show = () => {
      const [left, top] = [-view.x / view.scale, -view.y / view.scale];
      const [width, height] = [view.frame.clientWidth / view.scale, view.frame.clientHeight / view.scale];
      const isWhole = left <= 1 && top <= 1 && left + width >= view.width - 1 && top + height >= view.height - 1;
      map.current?.classList.toggle("hidden", isWhole);
      for (const [name, value] of Object.entries({ x: left, y: top, width, height })) {
        part.current?.setAttribute(name, String(value));
      }
    };
    view.listeners.add(show);
    show();
    return () => { view.listeners.delete(show); };
  }, [view]);
  const go = (/** @type {any} */ event) => {
    event.stopPropagation();
    if (!(event.buttons & 1)) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.current?.getScreenCTM()?.inverse());
    view.center(at.x, at.y);
  };
  return html`<svg class="minimap" aria-hidden="true" ref=${map} viewBox=${`0 0 ${view.width} ${view.height}`}
    onPointerDown=${go} onPointerMove=${go} onClick=${(/** @type {Event} */ event) => event.stopPropagation()}>
    ${[...view.boxes.values()].map((box) => html`<rect data-place=${box.id} x=${box.x} y=${box.y} width=${box.width}
      height=${box.height}></rect>`)}
    <rect class="part" ref=${part}></rect>
  </svg>`;
}
