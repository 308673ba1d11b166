/** What a reader does with an answer: copy it, ask again, say whether it was good. */

import { html, useRef, useState } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { Problem } from "./own_words.js";
import { t } from "./texts.js";

const MAX_NOTE = 2000;
/** @type {Feedback} */
const NONE = { rating: null, note: "" };

/** @typedef {{rating: "up"|"down"|null, note: string}} Feedback */

/**
 * @param {{text: string, feedback?: Feedback | null, onRetry?: () => void,
 *   onRate?: (feedback: Feedback) => Promise<any>}} props `feedback`: what the server has stored.
 */
export function AnswerTools({ text, feedback, onRetry, onRate }) {
  const [isCopied, setCopied] = useState(false);
  const [given, setGiven] = useState(feedback ?? NONE);
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState("");
  const sent = useRef(/** @type {Promise<any>} */ (Promise.resolve()));
  const kept = useRef(given);
  const copy = () => navigator.clipboard?.writeText(text).then(() => setCopied(true), () => undefined);
  const store = async (/** @type {Feedback} */ wanted) => {
    setGiven(wanted);
    setProblem("");
    const own = sent.current.then(() => onRate?.(wanted)); // the server must not get the last one first
    const settled = own.then(() => { kept.current = wanted; }, () => undefined);
    sent.current = settled;
    try {
      await own;
      return true;
    } catch (/** @type {any} */ error) {
      if (sent.current === settled) setGiven(kept.current);
      setProblem(error.message);
      return false;
    }
  };
  const rate = async (/** @type {"up"|"down"} */ rating) => {
    const isTaken = given.rating === rating;
    setAsking(!isTaken);
    if (!await store(isTaken ? NONE : { rating, note: "" })) setAsking(false);
  };
  const thumb = (/** @type {"up"|"down"} */ rating) => html`<${Tool} icon=${`thumbs-${rating}`} name=${t(`rate-${rating}`)}
    isPressed=${given.rating === rating} onSelect=${() => rate(rating)} />`;
  return html`<div class="answer-tools">
    <p class="message-tools">
      ${text && html`<${Tool} icon=${isCopied ? "check" : "copy"} name=${t(isCopied ? "copied" : "copy")} onSelect=${copy} />`}
      ${onRetry && html`<${Tool} icon="refresh-cw" name=${t("retry")} onSelect=${onRetry} />`}
      ${text && onRate && html`${thumb("up")}${thumb("down")}`}</p>
    ${given.note && html`<p class="hint given-note" dir="auto">“${given.note}”</p>`}
    ${isAsking && html`<${NoteForm} key=${given.rating} rating=${given.rating ?? "up"} onClose=${() => setAsking(false)}
      onSend=${async (/** @type {string} */ note) => { if (await store({ ...given, note })) setAsking(false); }} />`}
    <${Problem} text=${problem} />
  </div>`;
}

/** @param {{icon: string, name: string, isPressed?: boolean, onSelect: () => void}} props */
function Tool({ icon, name, isPressed, onSelect }) {
  return html`<button type="button" aria-label=${name} title=${name} aria-pressed=${isPressed} onClick=${onSelect}>
    <${Icon} name=${icon} /></button>`;
}

/** @param {{rating: "up"|"down", onSend: (note: string) => void, onClose: () => void}} props */
function NoteForm({ rating, onSend, onClose }) {
  const [note, setNote] = useState("");
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (note.trim()) onSend(note.trim());
    else onClose();
  };
  return html`<form class="note-form" onSubmit=${submit} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && onClose()}>
    <label>${t(`note-${rating}`)}<textarea rows="2" maxlength=${MAX_NOTE} value=${note}
      onInput=${(/** @type {any} */ event) => setNote(event.target.value)}></textarea></label>
    <div class="row"><button>${t("sendNote")}</button><button type="button" onClick=${onClose}>${t("noNote")}</button></div>
  </form>`;
}
