/** One turn of the conversation: the question, the line of facts, the answer or what stands for it, its forms and tools. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { AnswerTools } from "./answer_tools.js";
import { FileLink } from "./files.js";
import { PauseForm, sendWithEnter, useGrowing } from "./forms.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { Speech } from "./speech.js";
import { Facts, isOpen } from "./steps.js";
import { t } from "./texts.js";
import { TurnEnd } from "./turn_end.js";

/**
 * @typedef {{turn: import("./turn.js").Turn, problems: Record<string, string>, isLast: boolean, isBusy: boolean,
 *   isChosen: boolean, stepProblem?: string, onUnfold: () => void, onCite: (chunk: any) => void,
 *   onAnswer: (id: string, values: any) => void, onContinue?: () => void, onGiveUp?: () => void,
 *   onEdit?: (text: string) => any, onRetry?: () => void, onShowRun?: (node: string) => void,
 *   onRate?: (feedback: import("./answer_tools.js").Feedback) => Promise<any>, titleOf?: (node: string) => string}} Props
 */

/** @param {Props} props */
export function TurnView(props) {
  const { turn, problems, isLast, isBusy, isChosen, stepProblem, onUnfold, onCite, onAnswer, onGiveUp, onEdit, onRetry } = props;
  const { onRate, onShowRun, titleOf } = props;
  const { shown } = turn;
  const isRunning = isOpen(turn);
  const hasSteps = onShowRun || shown.thinking;
  const isEnded = !isRunning && !(isLast && isBusy) && !turn.pauses.length;
  const hasQuestion = turn.query || turn.files.length > 0;
  const hasAnswer = !isEnded || shown.text || shown.thinking || turn.downloads.length || turn.spoken.length || turn.error
    || turn.status !== "answered";
  useEffect(() => { if (turn.stepsOf && turn.status === "failed") onUnfold(); }, [turn.runId]); // the card names the node
  return html`
    ${hasQuestion && html`<${Question} text=${turn.query} files=${turn.files} onEdit=${onEdit} />`}
    ${hasAnswer && html`<div class="entry">
      ${hasSteps && html`<${Facts} turn=${turn} problem=${stepProblem} isChosen=${isChosen} onUnfold=${onUnfold} onCite=${onCite}
        onShowRun=${onShowRun && (() => onShowRun(""))} />`}
      <article class="message assistant" data-status=${turn.status}>
        ${turn.isDemo && html`<small class="hint">${t("demoLabel")}</small>`}
        ${shown.text && html`<${Markdown} text=${shown.text} chunks=${shown.chunks} isStreaming=${isRunning}
          onCite=${(/** @type {string} */ number) => onCite(shown.chunks[number])} />`}
        ${turn.spoken.length > 0 && html`<${Speech} sentences=${turn.spoken} />`}
        ${turn.downloads.map((file) => html`<${FileLink} file=${file} />`)}
        ${isRunning && !shown.text && !hasSteps && html`<p class="working">${t("starting")} …</p>`}
        <${TurnEnd} ...${props} />
        ${turn.pauses.map((pause) => html`<${PauseForm} key=${`${pause.id} ${Boolean(pause.values)}`} pause=${pause} title=${titleOf?.(pause.node) ?? ""}
          problems=${problems} isBusy=${isBusy} onAnswer=${onAnswer} onGiveUp=${onGiveUp} />`)}
      </article>
      ${isEnded && html`<${AnswerTools} key=${turn.runId} text=${shown.text} feedback=${turn.feedback}
        onRetry=${turn.status === "failed" ? undefined : onRetry} onRate=${turn.runId ? onRate : undefined} />`}
    </div>`}`;
}

/** @param {{text: string, files: any[], onEdit?: (text: string) => any}} props `onEdit` gives false if nothing was sent. */
function Question({ text, files, onEdit }) {
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const box = useGrowing(draft);
  const pencil = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const isGivenUp = useRef(false);
  useEffect(() => {
    if (draft !== null) box.current?.focus();
    else if (isGivenUp.current) pencil.current?.focus();
    isGivenUp.current = false;
  }, [draft === null]);
  const giveUp = () => {
    isGivenUp.current = true;
    setDraft(null);
  };
  const press = (/** @type {KeyboardEvent} */ event) => (event.key === "Escape" ? giveUp() : sendWithEnter(event));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!draft?.trim() || !onEdit) return;
    setDraft(null);
    if (await onEdit(draft) === false) setDraft(draft);
  };
  if (draft !== null) {
    return html`<form class="message user" onSubmit=${submit}>
      <textarea ref=${box} rows="1" aria-label=${t("edit")} value=${draft} onKeyDown=${press}
        onInput=${(/** @type {any} */ e) => setDraft(e.target.value)}></textarea>
      <div class="row"><button class="primary" disabled=${!onEdit}>${t("resend")}</button>
        <button type="button" onClick=${giveUp}>${t("cancel")}</button></div></form>`;
  }
  return html`<div class="entry user"><article class="message user"><p class="plain" dir="auto">${text}</p>
    ${files.map((file) => html`<p class="file"><${Icon} name="paperclip" /> ${file.name}</p>`)}</article>
    ${onEdit && html`<p class="message-tools"><button ref=${pencil} type="button" aria-label=${t("edit")} title=${t("edit")}
      onClick=${() => setDraft(text)}><${Icon} name="pencil" /></button></p>`}
  </div>`;
}
