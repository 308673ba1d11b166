/** What an answer cites, beside the conversation. */

import { html } from "../vendor/preact.js";
import { placeOf } from "./citations.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { t } from "./texts.js";

/** @param {{chunk: any, onClose: () => void}} props */
export function SourcePanel({ chunk, onClose }) {
  return html`<aside class="panel" aria-label=${t("source")}>
    <header><h2>${placeOf(chunk)}</h2>
      <button type="button" class="icon-button" onClick=${onClose} aria-label=${t("close")}><${Icon} name="x" /></button></header>
    <${Markdown} text=${chunk.content ?? ""} />
  </aside>`;
}
