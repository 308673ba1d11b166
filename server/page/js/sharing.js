/** The dialog that makes and revokes the link with which others read a conversation. */

import { html, useRef, useState } from "../vendor/preact.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";
import { Problem } from "./own_words.js";
import { t } from "./texts.js";

/** Where a page has been opened whose links nobody else can open. */
const LOOPBACK = /^(localhost|127\.|\[::1\])/;

/**
 * @param {{api: import("./api.js").Api, path: string, isShared: boolean, onChange: (isShared: boolean) => void,
 *   onClose: () => void}} props `path`: where the link is made and revoked.
 */
export function ShareDialog({ api, path, isShared, onChange, onClose }) {
  const [link, setLink] = useState("");
  const [isRevoked, setRevoked] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const ask = async (/** @type {"POST"|"DELETE"} */ method) => {
    setBusy(true);
    setProblem("");
    try {
      const made = await api.request(path, { method });
      setLink(made ? new URL(made.url.slice(1), location.href).href : "");
      setRevoked(!made);
      onChange(Boolean(made));
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  };
  const note = link ? "shareOnce" : isRevoked ? "shareRevoked" : isShared ? "shareThere" : "";
  return html`<${Dialog} label=${t("shareTalk")} onClose=${onClose}><div class="question">
    <p>${t("shareWho")}</p>
    <p class="hint">${t("shareNot")}</p>
    ${link && html`<${CopyLine} key=${link} link=${link} />`}
    <p class="hint" role="status">${note && t(note)}${link && LOOPBACK.test(location.hostname) && ` ${t("shareHere")}`}</p>
    <${Problem} text=${problem} />
    <footer class="row">
      ${isShared && html`<button type="button" disabled=${isBusy} onClick=${() => ask("DELETE")}>${t("revokeLink")}</button>`}
      ${!link && html`<button type="button" class="primary" disabled=${isBusy} onClick=${() => ask("POST")}>
        <${Icon} name="link" /> ${t(isShared ? "newLink" : "createLink")}</button>`}</footer>
  </div><//>`;
}

/** @param {{link: string}} props */
export function CopyLine({ link }) {
  const [isCopied, setCopied] = useState(false);
  const box = useRef(/** @type {HTMLInputElement | null} */ (null));
  const copy = () => {
    box.current?.select(); // for browsers that give pages without TLS no clipboard
    navigator.clipboard?.writeText(link).then(() => setCopied(true), () => undefined);
  };
  return html`<div class="row copy-line"><input ref=${box} readonly value=${link} aria-label=${t("link")} />
    <button type="button" class="primary" onClick=${copy}><${Icon} name=${isCopied ? "check" : "copy"} /> ${t(isCopied ? "copied" : "copyLink")}</button></div>`;
}
