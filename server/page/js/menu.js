/** A menu behind a button, for rare actions. */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { Icon } from "./icons.js";

/** @typedef {{label: string, icon?: string, onSelect: () => void, isDangerous?: boolean, isChosen?: boolean}} Item */

const EDGE_PX = 8;

/**
 * Put a menu over everything else, at its button: below it if there is room, else above it.
 * @param {HTMLElement} items @param {HTMLElement} button
 */
function place(items, button) {
  items.showPopover();
  const { top, bottom, left, right } = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = items;
  const start = getComputedStyle(button).direction === "rtl" ? left : right - width;
  items.style.left = `${Math.max(EDGE_PX, Math.min(start, innerWidth - width - EDGE_PX))}px`;
  items.style.top = `${bottom + height + EDGE_PX > innerHeight ? Math.max(EDGE_PX, top - height) : bottom}px`;
}

/**
 * Show a button that opens a menu. Arrows, Home and End move in it; Escape and a click elsewhere close it.
 * @param {{label: string, items: Item[], icon?: string}} props
 */
export function Menu({ label, items, icon = "more-horizontal" }) {
  const [isOpen, setOpen] = useState(false);
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const rows = () => /** @type {HTMLElement[]} */ ([...(frame.current?.querySelectorAll(".menu-items button") ?? [])]);
  useLayoutEffect(() => {
    const [button, items] = frame.current?.children ?? [];
    if (isOpen) place(/** @type {HTMLElement} */ (items), /** @type {HTMLElement} */ (button));
  }, [isOpen]);
  useEffect(() => {
    if (!isOpen) return undefined;
    rows()[0]?.focus();
    const close = (/** @type {Event} */ event) => {
      const isInside = event.target instanceof Node && frame.current?.contains(event.target);
      const isElsewhere = event.type === "scroll" && event.target instanceof Node && !event.target.contains(frame.current);
      if (!isInside && !isElsewhere) setOpen(false);
    };
    const moves = ["pointerdown", "resize", "scroll"]; // a menu stands where its button was
    for (const each of moves) addEventListener(each, close, { capture: true });
    return () => moves.forEach((each) => removeEventListener(each, close, { capture: true }));
  }, [isOpen]);

  const close = () => {
    setOpen(false);
    frame.current?.querySelector("button")?.focus();
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    const all = rows();
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    /** @type {Record<string, number>} */
    const places = { ArrowDown: (at + 1) % all.length, ArrowUp: (at || all.length) - 1, Home: 0, End: all.length - 1 };
    if (event.key === "Escape") close();
    else if (event.key === "Tab") return setOpen(false);
    else if (event.key in places) all[places[event.key]].focus();
    else return undefined;
    event.preventDefault();
    return event.stopPropagation();
  };
  const select = (/** @type {Item} */ item) => {
    close();
    item.onSelect();
  };
  return html`<div class="menu" ref=${frame}>
    <button type="button" class="icon-button" aria-label=${label} title=${label} aria-haspopup="menu" aria-expanded=${isOpen}
      onClick=${() => setOpen(!isOpen)}><${Icon} name=${icon} /></button>
    ${isOpen && html`<div class="menu-items" popover="manual" role="menu" aria-label=${label} onKeyDown=${press}>${items.map((item) => html`
      <button type="button" role=${item.isChosen === undefined ? "menuitem" : "menuitemradio"} aria-checked=${item.isChosen} tabindex="-1"
        data-dangerous=${item.isDangerous} onClick=${() => select(item)}>
        ${item.icon && html`<${Icon} name=${item.icon} />`}<span>${item.label}</span>
        ${item.isChosen && html`<${Icon} name="check" />`}</button>`)}</div>`}
  </div>`;
}
