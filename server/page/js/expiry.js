/** When an open form ends by itself, and what happens then. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { language, t } from "./texts.js";

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]];

/** @param {number} ms @returns {string} A time from now in whole units, of which there are at least two, if possible. */
function fromNow(ms) {
  const seconds = Math.floor(ms / 1000);
  const [unit, size] = UNITS.find((each) => seconds >= 2 * each[1]) ?? ["second", 1];
  return new Intl.RelativeTimeFormat(language()).format(Math.floor(seconds / size), unit);
}

/**
 * Say how long a form still waits; nothing if it waits for ever.
 * @param {{at?: number, answer?: string}} props
 */
export function Expiry({ at, answer }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!at) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [at]);
  if (!at) return null;
  if (at <= now) return html`<p class="hint">${t("expired")}</p>`;
  const [before, after] = t(answer === "cancel" ? "expiresCancelled" : "expiresAnswered").split("{time}");
  const date = new Date(at);
  return html`<p class="hint">${before}<time datetime=${date.toISOString()}
    title=${date.toLocaleString(language())}>${fromNow(at - now)}</time>${after}</p>`;
}
