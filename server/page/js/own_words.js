/** What the server says in its own words, which are English, with its meaning in 中文 before it. */

import { html } from "../vendor/preact.js";
import { language } from "./texts.js";

const CHINESE = /\p{Script=Han}/u;

/** @param {string} text @returns {any} The text; what it has in backticks is code. */
export function withCode(text) {
  return text.split(/`([^`\n]+)`/).map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));
}

/**
 * @param {{text: string, meaning?: string}} props `text`: the server's own words, or those of a service that it has called.
 *   `meaning`: what they mean, for readers of another language.
 */
export function OwnWords({ text, meaning }) {
  if (language() !== "zh") return withCode(text);
  const own = html`<span class=${meaning && "own-words"} lang=${CHINESE.test(text) ? undefined : "en"}>${withCode(text)}</span>`;
  return meaning ? html`${meaning} ${own}` : own;
}

/** @param {{text: string}} props The message of an `ApiError`: its meaning, then a line break, if the page is in 中文. */
export function Told({ text }) {
  const [meaning, ...own] = text.split("\n");
  if (language() !== "zh" || !own.length || !CHINESE.test(meaning)) return html`<${OwnWords} text=${text} />`;
  return html`<${OwnWords} meaning=${meaning} text=${own.join("\n")} />`;
}

/** Show what went wrong, if something did. @param {{text?: string}} props The message of an `ApiError`. */
export function Problem({ text }) {
  return text && html`<p class="problem" role="alert"><${Told} text=${text} /></p>`;
}
