/** The box for the next message, with files and Begin's form. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { Fields, sendWithEnter, useGrowing } from "./forms.js";
import { Icon } from "./icons.js";
import { t } from "./texts.js";
import { readUnsent } from "./unsent.js";

/** @typedef {{text: string, files: File[]}} Written */

/**
 * Return what is written in a conversation, and how to change it there, also after the reader has left it.
 * @param {string} place
 */
function useWritten(place) {
  const [, draw] = useState({});
  const own = readUnsent();
  const now = () => /** @type {Written} */ (own.get(place) ?? { text: "", files: [] });
  const write = (/** @type {Partial<Written>} */ change) => {
    own.set(place, { ...now(), ...change });
    draw({});
  };
  const setText = (/** @type {string | ((now: string) => string)} */ text) =>
    write({ text: typeof text === "string" ? text : text(now().text) });
  const setFiles = (/** @type {File[] | ((now: File[]) => File[])} */ files) =>
    write({ files: typeof files === "function" ? files(now().files) : files });
  return { ...now(), setText, setFiles };
}

/**
 * @param {{place?: string, begin: import("./begin.js").Begin | null, inputs: Record<string, any>,
 *   onInputs: (inputs: any) => void, isFirst: boolean, isBusy: boolean, isLoading?: boolean, isOffline?: boolean,
 *   isWaiting: boolean, problems: Record<string, string>, onSend: (text: string, files: File[]) => Promise<boolean | void>,
 *   onStop?: () => void}} props `place` names the conversation; `onSend` returns false if nothing has been sent.
 */
export function Composer({ place = "", begin, inputs, onInputs, isFirst, isBusy, isLoading, isOffline, isWaiting, problems, onSend, onStop }) {
  const { text, files, setText, setFiles } = useWritten(place);
  const [isShown, setShown] = useState(false);
  const [isLate, setLate] = useState(false);
  const isTask = begin?.mode === "task";
  const hasForm = Boolean(begin && Object.keys(begin.fields).length);
  const isFormShown = hasForm && !isWaiting && (isFirst || isTask || isShown);
  const isReady = Boolean(text.trim() || files.length || isTask || (hasForm && isFirst));
  const box = useBox(text, isFirst);
  const dropping = useDropping((dropped) => !isWaiting && setFiles((all) => [...all, ...dropped]));
  useEffect(() => { if (!isBusy) setLate(false); }, [isBusy]);
  const send = async () => {
    if (isBusy && !isLoading) setLate(Boolean(text.trim()));
    if (isBusy || isLoading || isOffline || isWaiting || !isReady) return;
    setText("");
    setFiles([]);
    setShown(false);
    if (await onSend(text, files) !== false) return;
    setText((now) => now || text);
    setFiles((now) => (now.length ? now : files));
  };
  const paste = (/** @type {ClipboardEvent} */ event) => {
    const pasted = [...event.clipboardData?.files ?? []];
    if (!pasted.length) return;
    event.preventDefault();
    setFiles([...files, ...pasted]);
  };
  return html`<form class="composer" ...${dropping.handlers} onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); send(); }}>
    ${isFormShown && html`<fieldset class="begin"><legend>${t("inputs")}</legend>
      <${Fields} prefix="begin" fields=${begin?.fields} values=${inputs} problems=${problems} onChange=${onInputs} /></fieldset>`}
    <div class="box" data-dropping=${dropping.isOver} data-task=${isTask}>
      ${files.length > 0 && html`<${Attached} files=${files} onRemove=${(/** @type {File} */ gone) => setFiles(files.filter((file) => file !== gone))} />`}
      ${!isTask && html`<textarea ref=${box} rows="1" value=${text} aria-label=${t("ask")} disabled=${isWaiting}
        placeholder=${t(isWaiting ? "answerFirst" : dropping.isOver ? "dropToAttach" : "ask")} onKeyDown=${sendWithEnter} onPaste=${paste}
        onInput=${(/** @type {any} */ e) => setText(e.target.value)}></textarea>`}
      <div class="row">
        <span class="row"><label class="button icon-button" title=${t("attach")}><${Icon} name="paperclip" />
          <input class="hidden" type="file" multiple disabled=${isWaiting} aria-label=${t("attach")}
            onChange=${(/** @type {any} */ e) => { setFiles([...files, ...e.target.files]); e.target.value = ""; }} /></label>
        ${hasForm && !isFirst && !isTask && html`<button type="button" class="quiet" aria-expanded=${isShown}
          onClick=${() => setShown(!isShown)}>${t("inputs")}</button>`}</span>
        ${isBusy && onStop
          ? html`<button type="button" class="primary icon-button" aria-label=${t("stop")} title=${t("stop")} onClick=${onStop}><${Icon} name="square" /></button>`
          : isTask ? html`<button class="primary" disabled=${isWaiting || isLoading}>${t("start")}</button>`
            : html`<button class="primary icon-button" aria-label=${t("send")} title=${t("send")} disabled=${isWaiting || isLoading}><${Icon} name="arrow-up" /></button>`}
      </div>
    </div>
    ${isLate ? html`<p class="hint" role="status">${t("waitForAnswer")}</p>`
      : isFirst && !isTask && html`<p class="hint keys">${t("keysHint")}</p>`}
  </form>`;
}

/**
 * Return the place of the box, which has the focus where a keyboard is likely.
 * @param {string} text @param {boolean} isFirst
 */
function useBox(text, isFirst) {
  const box = useGrowing(text);
  useEffect(() => {
    const isFree = document.activeElement === document.body || document.activeElement?.closest(".sessions");
    if (isFirst && isFree && matchMedia("(hover: hover) and (pointer: fine)").matches) box.current?.focus({ preventScroll: true });
  }, [isFirst]);
  return box;
}

/**
 * Take files that are dropped.
 * @param {(files: File[]) => void} onFiles
 */
function useDropping(onFiles) {
  const [isOver, setOver] = useState(false);
  const hasFiles = (/** @type {any} */ event) => event.dataTransfer?.types.includes("Files");
  const over = (/** @type {any} */ event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setOver(true);
  };
  const drop = (/** @type {any} */ event) => {
    setOver(false);
    if (!hasFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    onFiles([...event.dataTransfer.files]);
  };
  return { isOver, handlers: { onDragOver: over, onDragLeave: () => setOver(false), onDrop: drop } };
}

/** @param {{files: File[], onRemove: (file: File) => void}} props */
function Attached({ files, onRemove }) {
  return html`<ul class="attached">${files.map((file) => html`<li key=${`${file.name} ${file.size} ${file.lastModified}`}>
    <${Preview} file=${file} /><span>${file.name}</span>
    <button type="button" class="quiet" aria-label=${`${t("removeFile")}: ${file.name}`} onClick=${() => onRemove(file)}><${Icon} name="x" /></button></li>`)}</ul>`;
}

/** @param {{file: File}} props */
function Preview({ file }) {
  const [address, setAddress] = useState("");
  useEffect(() => {
    if (!/^image\/(png|jpeg|gif|webp|bmp)$/.test(file.type)) return undefined;
    const made = URL.createObjectURL(file);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [file]);
  return address ? html`<img src=${address} alt="" />` : html`<${Icon} name="file" />`;
}
