/** When an open form ends by itself, and what happens then. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { language, t } from "./texts.js";

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]];
const LOOK_MS = 1000;
const MAX_LOOK_MS = 30_000;
const MAX_TIMER_MS = 2 ** 31 - 1; // what a browser's timer can wait

/** @param {number} ms @returns {string} A time from now in whole units, of which there are at least two, if possible. */
function fromNow(ms) {
  const seconds = Math.floor(ms / 1000);
  const [unit, size] = UNITS.find((each) => seconds >= 2 * each[1]) ?? ["second", 1];
  return new Intl.RelativeTimeFormat(language()).format(Math.floor(seconds / size), unit);
}

/**
 * Look what has become of open forms: after their time, again and again, and whenever the reader comes back to the page.
 * @param {import("./turn.js").Turn | null} turn @param {boolean} isBusy @param {() => Promise<void>} look
 */
export function useOpenForms(turn, isBusy, look) {
  const pauses = isBusy ? [] : turn?.pauses ?? [];
  const at = Math.min(...pauses.map((pause) => pause.expire_ms || Infinity));
  useEffect(() => {
    if (!pauses.length) return undefined;
    let delay = LOOK_MS;
    let timer = 0;
    const lookQuietly = () => look().catch(() => undefined); // the server may be away
    const wait = () => {
      timer = setTimeout(async () => {
        if (Date.now() >= at) {
          delay = Math.min(delay * 1.2, MAX_LOOK_MS);
          await lookQuietly();
        }
        if (timer) wait();
      }, Math.min(Math.max(at - Date.now(), delay), MAX_TIMER_MS));
    };
    const visit = () => document.visibilityState === "visible" && lookQuietly();
    wait();
    addEventListener("visibilitychange", visit);
    addEventListener("focus", visit);
    return () => {
      clearTimeout(timer);
      timer = 0;
      removeEventListener("visibilitychange", visit);
      removeEventListener("focus", visit);
    };
  }, [turn?.runId, at, pauses.length]);
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
