/** The conversation: its turns, and the box for the next message. */

import { html, useMemo, useRef } from "../vendor/preact.js";
import { Composer } from "./composer.js";
import { useFollowing } from "./follow.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { Problem } from "./own_words.js";
import { language, t } from "./texts.js";
import { TurnView } from "./turn_view.js";
import { whole } from "./turns.js";

/**
 * @typedef {import("./turn.js").Turn} Turn
 * @typedef {{onSend: (text: string, files: File[]) => Promise<boolean | void>,
 *   onStop?: () => void, onAnswer: (id: string, values: any) => void, onCite: (chunk: any) => void,
 *   onContinue?: () => void, onGiveUp?: () => void, onRetry?: (text: string, files: File[]) => void,
 *   onRate?: (runId: string, feedback: import("./answer_tools.js").Feedback) => Promise<any>,
 *   onResend?: (at: number, text: string) => any, onShowRun?: (runId: string, node?: string) => void}} Actions What a
 *   reader can do. `onResend` sends the question with a number again, in a new conversation; `onRetry` sends it in this one.
 */

/**
 * Show a conversation.
 * @param {{place?: string, hasBox?: boolean, past: Turn[],
 *   turn: Turn | null, problem: string, problems: Record<string, string>, isBusy: boolean,
 *   isLoading?: boolean, isOffline?: boolean, begin: import("./begin.js").Begin | null, inputs: Record<string, any>,
 *   onInputs: (inputs: any) => void, opening?: (isFirst: boolean) => any, steps?: import("./turns.js").Steps, chosen?: string,
 *   titleOf?: (node: string) => string} & Actions} props `opening` is what stands before the first message, with the greeting,
 *   and less of it after that; `chosen` is the run that is shown.
 */
export function Chat(props) {
  const { past, turn, problem, problems, isBusy, isLoading, isOffline, begin, inputs, onInputs, opening, ...others } = props;
  const { place, hasBox = true, steps, chosen, titleOf, ...actions } = others;
  const isWaiting = Boolean(turn?.pauses.length);
  const wasBusy = useRef(false); // who hears the page is told of the end, not of each word
  if (isBusy) wasBusy.current = true;
  const isFirst = !isLoading && !turn && !past.some(({ query, files }) => query || files.length);
  const { frame, content, isAway, toEnd } = useFollowing(isFirst && Boolean(opening));
  const hasPrologue = begin?.prologue && !(opening && isFirst) && (past[0]?.query || past[0]?.files.length || !past.length);
  const show = useTurnViews({ past, turn, problems, isBusy, steps, chosen, titleOf }, actions);
  const send = (/** @type {string} */ text, /** @type {File[]} */ files) => {
    toEnd();
    return actions.onSend(text, files);
  };
  const isForm = isFirst && Object.keys(begin?.fields ?? {}).length > 0;
  return html`<section class="chat" data-form=${isForm} aria-label=${t("conversation")}>
    <div key="log" class="messages" ref=${frame} tabindex="0" role="log" aria-label=${t("conversation")} aria-busy=${isBusy}>
      <div class="turns" ref=${content}>
        ${opening?.(isFirst)}
        ${isLoading && html`<div class="ghost wide" role="status" aria-label=${t("loading")}></div>`}
        ${hasPrologue && html`<article class="prologue"><${Markdown} text=${begin.prologue} /></article>`}
        ${show}
        <${Problem} text=${problem} />
      </div>
    </div>
    <p key="said" class="unseen" aria-live="polite">${!isBusy && wasBusy.current && turn?.status === "succeeded" && t("answerComplete")}</p>
    <div key="below" class="below">
      ${isAway && html`<button type="button" class="newest" onClick=${toEnd}>
        <${Icon} name="arrow-down" /> ${t("newest")}</button>`}
      ${isOffline && !isBusy && html`<p class="offline" role="status">${t("offline")}</p>`}
      ${hasBox && html`<${Composer} place=${place} begin=${begin} inputs=${inputs} onInputs=${onInputs} isFirst=${isFirst} isBusy=${isBusy} isLoading=${isLoading} isOffline=${isOffline}
        isWaiting=${isWaiting} problems=${isWaiting ? {} : problems} onSend=${send} onStop=${actions.onStop} />`}
    </div>
  </section>`;
}

/**
 * Return the views of all turns. Those of the past are made anew only when something of them has changed.
 * @param {{past: Turn[], turn: Turn | null, problems: Record<string, string>, isBusy: boolean, chosen?: string,
 *   steps?: import("./turns.js").Steps, titleOf?: (node: string) => string}} shown @param {Actions} actions
 */
function useTurnViews({ past, turn, problems, isBusy, steps, chosen, titleOf }, actions) {
  const newest = useRef(actions);
  newest.current = actions;
  const view = (/** @type {Turn} */ each, /** @type {number} */ at, /** @type {Turn[]} */ all) => {
    const isLast = at === all.length - 1;
    const question = all.findLastIndex((other, number) => number <= at && (other.query || other.files.length));
    const resend = (/** @type {number} */ from, /** @type {string} */ text) => newest.current.onResend?.(from, text);
    const canResend = !isBusy && actions.onResend;
    const isHere = actions.onRetry && isLast && each.status === "failed";
    const retry = canResend ? () => resend(question, all[question].query)
      : isHere ? () => newest.current.onRetry?.(each.query, []) : undefined;
    return html`<${TurnView} key=${at} turn=${whole(each, steps?.steps[each.stepsOf ?? ""])} problems=${problems} isLast=${isLast} titleOf=${titleOf}
      isBusy=${isBusy} isChosen=${Boolean(chosen && chosen === each.runId)} stepProblem=${steps?.problems[each.stepsOf ?? ""]}
      onUnfold=${() => { if (each.stepsOf) steps?.load(each); }}
      onCite=${(/** @type {any} */ chunk) => newest.current.onCite(chunk)}
      onAnswer=${(/** @type {string} */ id, /** @type {any} */ values) => newest.current.onAnswer(id, values)}
      onContinue=${actions.onContinue && (() => newest.current.onContinue?.())}
      onGiveUp=${actions.onGiveUp && (() => newest.current.onGiveUp?.())}
      onEdit=${canResend && each.query ? (/** @type {string} */ text) => resend(at, text) : undefined}
      onRetry=${question < 0 || isBusy ? undefined : retry}
      onRate=${actions.onRate && ((/** @type {any} */ feedback) => newest.current.onRate?.(each.runId, feedback))}
      onShowRun=${actions.onShowRun && ((/** @type {string} */ node) => newest.current.onShowRun?.(each.runId, node))} />`;
  };
  const causes = [past, Boolean(turn), problems, isBusy, steps?.steps, steps?.problems, chosen, language()];
  const before = useMemo(() => past.map((each, at) => view(each, at, turn ? [...past, turn] : past)), causes);
  return turn ? [...before, view(turn, past.length, [...past, turn])] : before;
}
