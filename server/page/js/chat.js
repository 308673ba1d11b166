/** The conversation: messages, the turn that runs, forms, and the box for the next message. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { PauseForm } from "./forms.js";
import { Markdown } from "./markdown.js";
import { t } from "./texts.js";
import { withoutThinking } from "./turn.js";

/**
 * Show a conversation.
 * @param {{messages: any[], turn: import("./turn.js").Turn | null, problem: string, problems: Record<string, string>,
 *   isBusy: boolean, onSend: (text: string, files: File[]) => void, onStop: () => void,
 *   onAnswer: (id: string, values: any) => void, onContinue: () => void, onCite: (chunk: any) => void}} props
 */
export function Chat({ messages, turn, problem, problems, isBusy, onSend, onStop, onAnswer, onContinue, onCite }) {
  const end = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => end.current?.scrollIntoView?.({ block: "end" }), [messages.length, turn?.shown.text, turn?.pauses]);
  const isWaiting = Boolean(turn?.pauses.length);
  return html`<section class="chat" aria-label=${t("sessions")}>
    <div class="messages" aria-live="polite" aria-busy=${isBusy}>
      ${messages.map((message, at) => html`<${Message} key=${at} message=${message} onCite=${onCite} />`)}
      ${turn && html`<${TurnView} turn=${turn} problems=${problems} isBusy=${isBusy} onAnswer=${onAnswer}
        onContinue=${onContinue} onCite=${onCite} />`}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <div ref=${end}></div>
    </div>
    <${Composer} isBusy=${isBusy} isWaiting=${isWaiting} onSend=${onSend} onStop=${onStop} />
  </section>`;
}

/** @param {{message: any, onCite: (chunk: any) => void}} props */
function Message({ message, onCite }) {
  const chunks = Object.fromEntries((message.reference ?? []).map((/** @type {any} */ chunk, /** @type {number} */ at) =>
    [String(chunk.number ?? chunk.citation ?? at), chunk]));
  return html`<article class=${`message ${message.role}`}>
    ${message.role === "user"
      ? html`<p class="plain">${message.content}</p>`
      : html`<${Markdown} text=${withoutThinking(message.content)} chunks=${chunks}
          onCite=${(/** @type {string} */ number) => onCite(chunks[number])} />`}
  </article>`;
}

/**
 * @param {{turn: import("./turn.js").Turn, problems: Record<string, string>, isBusy: boolean,
 *   onAnswer: (id: string, values: any) => void, onContinue: () => void, onCite: (chunk: any) => void}} props
 */
function TurnView({ turn, problems, isBusy, onAnswer, onContinue, onCite }) {
  const { shown } = turn;
  const isOpen = turn.status === "running" || turn.status === "starting";
  return html`
    ${(turn.query || turn.files.length > 0) && html`<article class="message user"><p class="plain">${turn.query}</p>
      ${turn.files.map((file) => html`<p class="file">📎 ${file.name}</p>`)}</article>`}
    <article class="message assistant" data-status=${turn.status}>
      ${shown.thinking && html`<details class="thinking" open=${shown.isThinking}>
        <summary>${t("thinking")}</summary><${Markdown} text=${shown.thinking} /></details>`}
      ${turn.calls.length > 0 && html`<${Calls} calls=${turn.calls} />`}
      ${shown.text && html`<${Markdown} text=${shown.text} chunks=${shown.chunks}
        onCite=${(/** @type {string} */ number) => onCite(shown.chunks[number])} />`}
      ${turn.downloads.map((file) => html`<p class="file"><${Download} file=${file} /></p>`)}
      ${isOpen && !shown.text && html`<p class="working">${runningTitles(turn) || t("starting")} …</p>`}
      ${turn.status === "reconnecting" && html`<p class="working" role="status">${t("reconnecting")}</p>`}
      ${turn.status === "interrupted" && !isBusy && html`<p>${t("interrupted")}
        <button onClick=${onContinue}>${t("continue")}</button></p>`}
      ${turn.error && html`<p class="problem" role="alert">${turn.error}</p>`}
      ${turn.pauses.map((pause) => html`<${PauseForm} key=${pause.id} pause=${pause} problems=${problems} isBusy=${isBusy}
        onAnswer=${onAnswer} />`)}
    </article>`;
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
      <pre>${JSON.stringify(call.arguments ?? null, null, 2)}</pre>
      <pre>${call.error || (typeof call.result === "string" ? call.result : JSON.stringify(call.result ?? null, null, 2))}</pre>
    </details>`)}
  </details>`;
}

/** @param {{file: any}} props */
function Download({ file }) {
  const name = file.file_name ?? file.filename ?? file.name ?? t("download");
  const url = file.url && !/^[a-z]+:|^\/\//i.test(file.url) ? file.url : undefined;
  return url ? html`<a href=${url} download=${name}>${name}</a>` : html`<span>${name}</span>`;
}

/** @param {{isBusy: boolean, isWaiting: boolean, onSend: (text: string, files: File[]) => void, onStop: () => void}} props */
function Composer({ isBusy, isWaiting, onSend, onStop }) {
  const [text, setText] = useState("");
  const [files, setFiles] = useState(/** @type {File[]} */ ([]));
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isBusy || (!text.trim() && !files.length)) return;
    onSend(text, files);
    setText("");
    setFiles([]);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
  };
  return html`<form class="composer" onSubmit=${send}>
    ${files.length > 0 && html`<p class="file">${files.map((file) => file.name).join(", ")}
      <button type="button" onClick=${() => setFiles([])} aria-label=${t("cancel")}>×</button></p>`}
    <textarea rows="2" value=${text} placeholder=${t("ask")} aria-label=${t("ask")} disabled=${isWaiting}
      onInput=${(/** @type {any} */ e) => setText(e.target.value)} onKeyDown=${key}></textarea>
    <div class="row">
      <label class="button">${t("attach")}<input class="hidden" type="file" multiple disabled=${isWaiting}
        onChange=${(/** @type {any} */ e) => setFiles([...e.target.files])} /></label>
      ${isBusy
        ? html`<button type="button" class="primary" onClick=${onStop}>${t("stop")}</button>`
        : html`<button class="primary" disabled=${isWaiting}>${t("send")}</button>`}
    </div>
  </form>`;
}
