/** The icons of the page: lines in the colour and size of the text beside them. */

import { html } from "../vendor/preact.js";
import { ICONS } from "../vendor/icons.js";

/**
 * Show an icon. Without a label it is decoration, which is not read aloud.
 * @param {{name: string, label?: string}} props `name` is one of `vendor/vendor.json`.
 */
export function Icon({ name, label }) {
  return html`<svg class="icon" data-icon=${name} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2"
    stroke-linecap="round" stroke-linejoin="round" role=${label ? "img" : undefined} aria-label=${label}
    aria-hidden=${label ? undefined : "true"} focusable="false">
    ${ICONS[name].map(([Tag, attributes]) => html`<${Tag} ...${attributes} />`)}</svg>`;
}
