/** The conversation: messages, the turn that runs, its forms, and the box for the next message. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { citedChunks } from "./citations.js";
import { Composer } from "./composer.js";
import { FileLink } from "./files.js";
import { PauseForm } from "./forms.js";
import { Markdown } from "./markdown.js";
import { Speech } from "./speech.js";
import { t } from "./texts.js";
import { withoutThinking } from "./turn.js";

/**
 * @typedef {{onSend: (text: string, files: File[]) => void, onStop: () => void,
 *   onAnswer: (id: string, values: any) => void, onContinue: () => void, onCite: (chunk: any) => void,
 *   onResend?: (at: number, text: string) => void}} Actions What a reader can do. `onResend` sends the message with a
 *   number again, in a new conversation.
 */

/**
 * Show a conversation.
 * @param {{messages: any[], turn: import("./turn.js").Turn | null, problem: string, problems: Record<string, string>,
 *   isBusy: boolean, begin: import("./begin.js").Begin | null, inputs: Record<string, any>,
 *   onInputs: (inputs: any) => void, tools?: any, opening?: (isFirst: boolean) => any} & Actions} props `opening` is what
 *   stands before the first message, with the greeting, and less of it after that.
 */
export function Chat({ messages, turn, problem, problems, isBusy, begin, inputs, onInputs, tools, opening, ...actions }) {
  const end = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => end.current?.scrollIntoView?.({ block: "end" }), [messages.length, turn?.shown.text, turn?.pauses]);
  const isWaiting = Boolean(turn?.pauses.length);
  const isFirst = !turn && !messages.some((message) => message.role === "user");
  const hasPrologue = begin?.prologue && messages[0]?.role !== "assistant";
  const onResend = isBusy ? undefined : actions.onResend;
  return html`<section class="chat" aria-label=${t("conversation")}>
    ${tools}
    <div class="messages" tabindex="0" role="log" aria-label=${t("conversation")} aria-busy=${isBusy}>
      ${opening?.(isFirst)}
      ${hasPrologue && !(opening && isFirst) && html`<article class="prologue"><${Markdown} text=${begin.prologue} /></article>`}
      ${messages.map((message, at) => html`<${Message} key=${at} message=${message} onCite=${actions.onCite}
        onEdit=${onResend && ((/** @type {string} */ text) => onResend(at, text))}
        onRetry=${onResend && questionBefore(messages, at) >= 0
          && (() => onResend(questionBefore(messages, at), messages[questionBefore(messages, at)].content))} />`)}
      ${turn && html`<${TurnView} turn=${turn} problems=${problems} isBusy=${isBusy} ...${actions}
        onResend=${onResend && ((/** @type {string} */ text) => onResend(messages.length, text))} />`}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <div ref=${end}></div>
    </div>
    <${Composer} begin=${begin} inputs=${inputs} onInputs=${onInputs} isFirst=${isFirst} isBusy=${isBusy}
      isWaiting=${isWaiting} problems=${isWaiting ? {} : problems} onSend=${actions.onSend} onStop=${actions.onStop} />
  </section>`;
}

/** @param {any[]} messages @param {number} at @returns {number} The number of the question before an answer, or -1. */
function questionBefore(messages, at) {
  return messages.findLastIndex((message, number) => number < at && message.role === "user");
}

/**
 * @param {{message: any, onCite: (chunk: any) => void, onEdit?: (text: string) => void, onRetry?: () => void}} props
 */
function Message({ message, onCite, onEdit, onRetry }) {
  const chunks = citedChunks(message);
  if (message.role === "user") return html`<${Question} text=${message.content} files=${message.files ?? []} onEdit=${onEdit} />`;
  return html`<div class="entry"><article class="message assistant">
    ${message.isDemo && html`<small class="hint">${t("demoLabel")}</small>`}
    <${Markdown} text=${withoutThinking(message.content)} chunks=${chunks}
      onCite=${(/** @type {string} */ number) => onCite(chunks[number])} />
    ${message.downloads?.map((/** @type {any} */ file) => html`<${FileLink} file=${file} />`)}
  </article><${AnswerTools} text=${withoutThinking(message.content)} onRetry=${onRetry} /></div>`;
}

/** @param {{text: string, files: any[], onEdit?: (text: string) => void}} props */
function Question({ text, files, onEdit }) {
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const box = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => { if (draft !== null) box.current?.focus(); }, [draft === null]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!draft?.trim() || !onEdit) return;
    setDraft(null);
    onEdit(draft);
  };
  if (draft !== null) {
    return html`<form class="message user" onSubmit=${submit}>
      <textarea ref=${box} rows="3" aria-label=${t("edit")} value=${draft}
        onInput=${(/** @type {any} */ e) => setDraft(e.target.value)}></textarea>
      <div class="row"><button class="primary" disabled=${!onEdit}>${t("resend")}</button>
        <button type="button" onClick=${() => setDraft(null)}>${t("cancel")}</button></div></form>`;
  }
  return html`<div class="entry user"><article class="message user"><p class="plain">${text}</p>
    ${files.map((file) => html`<p class="file">📎 ${file.name}</p>`)}</article>
    ${onEdit && html`<p class="message-tools"><button type="button" onClick=${() => setDraft(text)}>${t("edit")}</button></p>`}
  </div>`;
}

/** @param {{text: string, onRetry?: () => void}} props */
function AnswerTools({ text, onRetry }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () => navigator.clipboard?.writeText(text).then(() => setCopied(true), () => undefined);
  return html`<p class="message-tools">
    ${text && html`<button type="button" onClick=${copy}>${t(isCopied ? "copied" : "copy")}</button>`}
    ${onRetry && html`<button type="button" onClick=${onRetry}>${t("retry")}</button>`}</p>`;
}

/**
 * @param {{turn: import("./turn.js").Turn, problems: Record<string, string>, isBusy: boolean,
 *   onAnswer: (id: string, values: any) => void, onContinue: () => void, onCite: (chunk: any) => void,
 *   onResend?: (text: string) => void}} props
 */
function TurnView({ turn, problems, isBusy, onAnswer, onContinue, onCite, onResend }) {
  const { shown } = turn;
  const isOpen = turn.status === "running" || turn.status === "starting";
  const isEnded = !isOpen && !isBusy && !turn.pauses.length;
  const hasQuestion = turn.query || turn.files.length > 0;
  return html`
    ${hasQuestion && html`<${Question} text=${turn.query} files=${turn.files} onEdit=${onResend} />`}
    <div class="entry"><article class="message assistant" data-status=${turn.status}>
      ${turn.isDemo && html`<small class="hint">${t("demoLabel")}</small>`}
      ${shown.thinking && html`<details class="thinking" open=${shown.isThinking}>
        <summary>${t("thinking")}</summary><${Markdown} text=${shown.thinking} /></details>`}
      ${turn.calls.length > 0 && html`<${Calls} calls=${turn.calls} />`}
      ${shown.text && html`<${Markdown} text=${shown.text} chunks=${shown.chunks} isStreaming=${isOpen}
        onCite=${(/** @type {string} */ number) => onCite(shown.chunks[number])} />`}
      ${turn.spoken.length > 0 && html`<${Speech} sentences=${turn.spoken} />`}
      ${turn.downloads.map((file) => html`<${FileLink} file=${file} />`)}
      ${isOpen && !shown.text && html`<p class="working">${runningTitles(turn) || t("starting")} …</p>`}
      ${turn.status === "reconnecting" && html`<p class="working" role="status">${t("reconnecting")}</p>`}
      ${turn.status === "interrupted" && !isBusy && html`<p>${t("interrupted")}
        <button onClick=${onContinue}>${t("continue")}</button></p>`}
      ${turn.error && html`<p class="problem" role="alert">${failedTitle(turn)}${turn.error}</p>`}
      ${turn.pauses.map((pause) => html`<${PauseForm} key=${pause.id} pause=${pause} problems=${problems} isBusy=${isBusy}
        onAnswer=${onAnswer} />`)}
    </article>
    ${isEnded && html`<${AnswerTools} text=${shown.text} onRetry=${hasQuestion && onResend && (() => onResend(turn.query))} />`}
    </div>`;
}

/** @param {import("./turn.js").Turn} turn @returns {string} The title of the node with the error of the turn, if one has it. */
function failedTitle(turn) {
  const failed = turn.order.map((id) => turn.nodes[id]).find(({ error }) => error === turn.error);
  return failed ? `${failed.title}: ` : "";
}

/** @param {import("./turn.js").Turn} turn @returns {string} */
function runningTitles(turn) {
  return turn.order.filter((id) => turn.nodes[id].status === "running").map((id) => turn.nodes[id].title).join(", ");
}

/** @param {{calls: import("./turn.js").Call[]}} props */
export function Calls({ calls }) {
  return html`<details class="calls"><summary>${t("calls")} (${calls.length})</summary>
    ${calls.map((call) => html`<details class="call" key=${call.id} data-status=${call.status}>
      <summary><b>${call.title}</b> ${t(call.status)}${call.seconds ? ` · ${call.seconds.toFixed(2)} ${t("seconds")}` : ""}</summary>
      <pre tabindex="0">${JSON.stringify(call.arguments ?? null, null, 2)}</pre>
      <pre tabindex="0">${call.error || (typeof call.result === "string" ? call.result : JSON.stringify(call.result ?? null, null, 2))}</pre>
    </details>`)}
  </details>`;
}
