/** The menu of one conversation: rename, pin, what else is given, and delete. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Dialog } from "./dialog.js";
import { Menu } from "./menu.js";
import { Problem } from "./own_words.js";
import { talkTitle } from "./sessions.js";
import { ShareDialog } from "./sharing.js";
import { t } from "./texts.js";

/**
 * @typedef {{change: (id: string, change: {name?: string, pinned?: boolean}) => Promise<void>,
 *   remove: (id: string, isRunning?: boolean) => Promise<void>, report: (error: any) => void, api: import("./api.js").Api,
 *   sharePath: (id: string) => string, isShareable: boolean, onShared: (row: any, isShared: boolean) => void}} Changes What can
 *   happen to a conversation.
 */

/**
 * Show the menu, and the questions that it asks.
 * @param {{label: string, row: any, changes: Changes, items?: import("./menu.js").Item[]}} props `row`: the conversation, as
 *   the server lists it. `items` stand between what changes its place in the list and what deletes it.
 */
export function ConversationMenu({ label, row, changes, items = [] }) {
  const [asked, setAsked] = useState(/** @type {""|"rename"|"share"|"delete"} */ (""));
  const close = () => setAsked("");
  const all = [
    { label: t("rename"), icon: "pencil", onSelect: () => setAsked("rename") },
    {
      label: t(row.pinned ? "unpin" : "pin"), icon: row.pinned ? "pin-off" : "pin",
      onSelect: () => { changes.change(row.id, { pinned: !row.pinned }).catch(changes.report); },
    },
    ...(changes.isShareable ? [{ label: t("share"), icon: "share-2", onSelect: () => setAsked("share") }] : []),
    ...items,
    { label: t("deleteTalk"), icon: "trash-2", isDangerous: true, onSelect: () => setAsked("delete") },
  ];
  return html`<${Menu} label=${label} items=${all} />
    ${asked === "rename" && html`<${RenameDialog} name=${row.name} onClose=${close}
      onSave=${(/** @type {string} */ name) => changes.change(row.id, { name })} />`}
    ${asked === "share" && html`<${ShareDialog} api=${changes.api} path=${changes.sharePath(row.id)} isShared=${row.shared} onClose=${close}
      onChange=${(/** @type {boolean} */ isShared) => changes.onShared(row, isShared)} />`}
    ${asked === "delete" && html`<${DeleteDialog} row=${row} onClose=${close}
      onDelete=${(/** @type {boolean} */ isRunning) => changes.remove(row.id, isRunning)} />`}`;
}

/** @param {{name: string, onSave: (name: string) => Promise<void>, onClose: () => void}} props */
function RenameDialog({ name, onSave, onClose }) {
  const [given, setGiven] = useState(name);
  const box = useRef(/** @type {HTMLInputElement | null} */ (null));
  const { problem, isBusy, submit } = useQuestion(() => onSave(given.trim()));
  useEffect(() => box.current?.select(), []);
  return html`<${Dialog} label=${t("rename")} onClose=${onClose}><form class="question" onSubmit=${submit}>
    <input ref=${box} autofocus maxlength="250" value=${given} aria-label=${t("talkName")} placeholder=${t("firstQuestion")}
      onInput=${(/** @type {any} */ event) => setGiven(event.target.value)} />
    <p class="hint">${t("renameHint")}</p>
    <${Answers} name="save" isBusy=${isBusy} problem=${problem} /></form><//>`;
}

/** @param {{row: any, onDelete: (isRunning: boolean) => Promise<void>, onClose: () => void}} props */
function DeleteDialog({ row, onDelete, onClose }) {
  const isRunning = row.status === "running";
  const { problem, isBusy, submit } = useQuestion(() => onDelete(isRunning));
  return html`<${Dialog} label=${t("deleteQuestion")} onClose=${onClose}><form class="question" onSubmit=${submit}>
    <p><b>${talkTitle(row)}</b></p><p class="hint">${isRunning && `${t("deleteRuns")} `}${t("deleteHint")}</p>
    <${Answers} name=${isRunning ? "stopAndDelete" : "deleteTalk"} isDangerous isBusy=${isBusy} problem=${problem} /></form><//>`;
}

/**
 * Return what a dialog does with its answer: it closes when that is done, and otherwise says why not.
 * @param {() => Promise<void>} act
 */
function useQuestion(act) {
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const dialog = event.target.closest("dialog");
    setBusy(true);
    try {
      await act();
      dialog.close();
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  };
  return { problem, isBusy, submit };
}

/** @param {{name: string, problem: string, isBusy: boolean, isDangerous?: boolean}} props */
function Answers({ name, problem, isBusy, isDangerous }) {
  return html`<${Problem} text=${problem} />
    <footer class="row">
      <button type="button" onClick=${(/** @type {any} */ event) => event.target.closest("dialog").close()}>${t("cancel")}</button>
      <button class=${isDangerous ? "primary dangerous" : "primary"} disabled=${isBusy}>${t(name)}</button></footer>`;
}
