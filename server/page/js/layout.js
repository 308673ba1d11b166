/** Where the parts of an agent's view are: columns on wide screens, drawers on narrow ones. The browser keeps the choice. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { t } from "./texts.js";

const SHARE = "ragflow-lg-share";
const PANEL = "ragflow-lg-panel";
const USUAL = 40;
const LEAST = 25;
const MOST = 70;
const STEP = 2;
/** Below these widths, in pixels, a part is a drawer: as in page.css. */
const NARROW = { panel: 1000, list: 700 };

/** @typedef {"list"|"panel"} Part */
/** @typedef {ReturnType<typeof useLayout>} Layout */

/** @param {Part} part @returns {boolean} */
function isDrawer(part) {
  return matchMedia(`(max-width: ${NARROW[part]}px)`).matches;
}

/** Return where the parts are, and how to change it. */
export function useLayout() {
  const [share, setShare] = useState(() => keepInside(Number(localStorage.getItem(SHARE)) || USUAL));
  const [panel, setPanel] = useState(() => (localStorage.getItem(PANEL) === "closed" ? "closed" : "open"));
  const [drawer, setDrawer] = useState(/** @type {Part | ""} */ (""));
  const [, setWidth] = useState(0);
  /** A drawer is a step of the browser's history, so that Back closes it. */
  const show = (/** @type {Part | ""} */ part) => {
    if (!part) return close();
    if (history.state?.drawer) history.replaceState({ drawer: part }, "");
    else history.pushState({ drawer: part }, "");
    return setDrawer(part);
  };
  const close = () => {
    if (history.state?.drawer) {
      history.replaceState(null, ""); // going back takes time, and Escape may be pressed again
      history.back();
    }
    setDrawer("");
  };
  useEffect(() => {
    const media = Object.values(NARROW).map((width) => matchMedia(`(max-width: ${width}px)`));
    const change = () => {
      if (history.state?.drawer) history.replaceState(null, ""); // nothing is left that Back could close
      setDrawer("");
      setWidth(innerWidth);
    };
    const press = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && close();
    const back = () => setDrawer(history.state?.drawer ?? "");
    media.forEach((each) => each.addEventListener("change", change));
    addEventListener("keydown", press);
    addEventListener("popstate", back);
    return () => {
      media.forEach((each) => each.removeEventListener("change", change));
      removeEventListener("keydown", press);
      removeEventListener("popstate", back);
    };
  }, []);

  const before = useRef(drawer);
  useEffect(() => {
    const closed = drawer ? "" : before.current;
    before.current = drawer;
    const focused = document.activeElement;
    const isLost = !focused || focused === document.body || !focused.checkVisibility();
    const button = /** @type {HTMLElement | null} */ (document.querySelector(`.top [data-part="${closed}"]`));
    if (closed && isLost) button?.focus();
  }, [drawer]);

  const place = (/** @type {"open"|"closed"|"whole"} */ now) => {
    localStorage.setItem(PANEL, now);
    setPanel(now);
  };
  const isShown = (/** @type {Part} */ part) => (isDrawer(part) ? drawer === part : part === "list" || panel !== "closed");
  const toggle = (/** @type {Part} */ part) => {
    if (isDrawer(part)) show(drawer === part ? "" : part);
    else place(panel === "closed" ? "open" : "closed");
  };
  const size = (/** @type {number} */ given) => {
    localStorage.setItem(SHARE, String(keepInside(given)));
    setShare(keepInside(given));
  };
  return {
    share, panel, drawer, isShown, toggle, size,
    isWhole: panel === "whole",
    closeDrawer: close,
    showPanel: () => { if (!isShown("panel")) toggle("panel"); },
    enlarge: () => place(panel === "whole" ? "open" : "whole"),
  };
}

/** @param {number} share @returns {number} */
function keepInside(share) {
  return Math.min(MOST, Math.max(LEAST, share));
}

/**
 * The line between the conversation and the panel: drag it, or use the arrow keys; a double click resets it.
 * @param {{layout: Layout}} props
 */
export function Divider({ layout }) {
  const line = useRef(/** @type {HTMLElement | null} */ (null));
  const drag = (/** @type {PointerEvent} */ event) => {
    const frame = line.current?.parentElement;
    if (!frame || !line.current?.hasPointerCapture(event.pointerId)) return;
    const { left, right, width } = frame.getBoundingClientRect();
    const isFromRight = getComputedStyle(frame).direction === "rtl";
    layout.size(((isFromRight ? event.clientX - left : right - event.clientX) / width) * 100);
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    const isFromRight = line.current && getComputedStyle(line.current).direction === "rtl";
    const larger = isFromRight ? "ArrowRight" : "ArrowLeft";
    const smaller = isFromRight ? "ArrowLeft" : "ArrowRight";
    if (event.key === larger) layout.size(layout.share + STEP);
    else if (event.key === smaller) layout.size(layout.share - STEP);
    else if (event.key === "Home") layout.size(LEAST);
    else if (event.key === "End") layout.size(MOST);
    else return;
    event.preventDefault();
  };
  return html`<div class="divider" ref=${line} role="separator" tabindex="0" aria-orientation="vertical" aria-label=${t("divider")}
    title=${t("dividerHint")} aria-valuenow=${Math.round(layout.share)} aria-valuemin=${LEAST} aria-valuemax=${MOST}
    onPointerDown=${(/** @type {PointerEvent} */ event) => line.current?.setPointerCapture(event.pointerId)}
    onPointerMove=${drag} onDblClick=${() => layout.size(USUAL)} onKeyDown=${press}></div>`;
}
