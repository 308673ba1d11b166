/** A dialog over the page: the browser's own, which keeps the focus and closes at Escape. */

import { html, useEffect, useRef } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { t } from "./texts.js";

/** @param {{label: string, onClose: () => void, children?: any}} props */
export function Dialog({ label, onClose, children }) {
  const shown = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => { shown.current?.showModal(); }, []);
  return html`<dialog class="dialog" ref=${shown} aria-label=${label} onClose=${onClose}>
    <header><h2>${label}</h2><button type="button" class="icon-button" aria-label=${t("close")}
      onClick=${() => shown.current?.close()}><${Icon} name="x" /></button></header>
    ${children}
  </dialog>`;
}
