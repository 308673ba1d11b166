/** Spoken answers: the sentences of a turn, played one after another. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { t } from "./texts.js";

/** @type {[string, string][]} How the formats begin, in hexadecimal digits; MP3 has several ways. */
const FORMATS = [["52494646", "audio/wav"], ["4f676753", "audio/ogg"], ["664c6143", "audio/flac"]];

/** @param {string} digits @returns {string} The address of audio in hexadecimal digits. */
function readAudio(digits) {
  const type = FORMATS.find(([beginning]) => digits.toLowerCase().startsWith(beginning))?.[1] ?? "audio/mpeg";
  const bytes = digits.match(/[0-9a-f]{2}/gi) ?? [];
  return `data:${type};base64,${btoa(bytes.map((pair) => String.fromCharCode(Number.parseInt(pair, 16))).join(""))}`;
}

/**
 * Play sentences as they arrive.
 * @param {{sentences: string[]}} props Each sentence as audio in hexadecimal digits.
 */
export function Speech({ sentences }) {
  const [at, setAt] = useState(0);
  const player = useRef(/** @type {HTMLAudioElement | null} */ (null));
  const isPending = at < sentences.length;
  const sentence = sentences[Math.min(at, sentences.length - 1)];
  const address = useMemo(() => readAudio(sentence), [sentence]);
  const play = () => player.current?.play().catch(() => undefined); // a browser may forbid it
  useEffect(() => { if (isPending) play(); }, [at, isPending]);
  return html`<p class="speech">
    <audio ref=${player} controls src=${address} aria-label=${t("spoken")} data-sentence=${at + 1}
      onEnded=${() => setAt(Math.min(at + 1, sentences.length))}></audio>
    ${sentences.length > 1 && html`<button type="button" onClick=${() => (at ? setAt(0) : play())}>${t("fromStart")}</button>`}
  </p>`;
}
