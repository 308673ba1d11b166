/** The box for the next message, with files and Begin's form. */

import { html, useState } from "../vendor/preact.js";
import { Fields } from "./forms.js";
import { t } from "./texts.js";

/**
 * @param {{begin: import("./begin.js").Begin | null, inputs: Record<string, any>, onInputs: (inputs: any) => void,
 *   isFirst: boolean, isBusy: boolean, isWaiting: boolean, problems: Record<string, string>,
 *   onSend: (text: string, files: File[]) => void, onStop: () => void}} props
 */
export function Composer({ begin, inputs, onInputs, isFirst, isBusy, isWaiting, problems, onSend, onStop }) {
  const [text, setText] = useState("");
  const [files, setFiles] = useState(/** @type {File[]} */ ([]));
  const [isShown, setShown] = useState(false);
  const isTask = begin?.mode === "task";
  const hasForm = Boolean(begin && Object.keys(begin.fields).length);
  const isFormShown = hasForm && !isWaiting && (isFirst || isTask || isShown);
  const isReady = Boolean(text.trim() || files.length || isTask || (hasForm && isFirst));
  const send = () => {
    if (isBusy || isWaiting || !isReady) return;
    onSend(text, files);
    setText("");
    setFiles([]);
    setShown(false);
  };
  const key = (/** @type {any} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  };
  return html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); send(); }}>
    ${isFormShown && html`<fieldset class="begin"><legend>${t("inputs")}</legend>
      <${Fields} prefix="begin" fields=${begin?.fields} values=${inputs} problems=${problems} onChange=${onInputs} /></fieldset>`}
    ${files.length > 0 && html`<p class="file">${files.map((file) => file.name).join(", ")}
      <button type="button" onClick=${() => setFiles([])} aria-label=${t("cancel")}>×</button></p>`}
    ${!isTask && html`<textarea rows="2" value=${text} placeholder=${t(isWaiting ? "answerFirst" : "ask")} aria-label=${t("ask")} disabled=${isWaiting}
      onInput=${(/** @type {any} */ e) => setText(e.target.value)} onKeyDown=${key}></textarea>`}
    <div class="row">
      <span class="row"><label class="button">${t("attach")}<input class="hidden" type="file" multiple disabled=${isWaiting}
        onChange=${(/** @type {any} */ e) => { setFiles([...e.target.files]); e.target.value = ""; }} /></label>
      ${hasForm && !isFirst && !isTask && html`<button type="button" aria-expanded=${isShown}
        onClick=${() => setShown(!isShown)}>${t("inputs")}</button>`}</span>
      ${isBusy
        ? html`<button type="button" class="primary" onClick=${onStop}>${t("stop")}</button>`
        : html`<button class="primary" disabled=${isWaiting}>${t(isTask ? "start" : "send")}</button>`}
    </div>
  </form>`;
}
