/** How a turn has ended without an answer: a card that says what failed and what helps, or one line. */

import { html } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { OwnWords, Told } from "./own_words.js";
import { meaningOf, t } from "./texts.js";
import { STOPPED } from "./turn.js";

const MAX_CAUSE = 240;
/** A service's answer. What follows are the service's words. */
const STATUS = / answered (\d{3}):/;
/** @type {[RegExp, string][]} What an error is about, and what helps: by the status, then by our own words. */
const ADVICE = [
  [/^(401|403)$/, "adviseKey"],
  [/^(408|429|5\d\d)$|did not answer within|did not answer in time|did not finish within/, "adviseRetry"],
  [/dataset|knowledge/i, "adviseDataset"],
  [/api.?key|unauthori[sz]ed|authentication|\b401\b/i, "adviseKey"],
  [/\bmodel\b|provider/i, "adviseModel"],
];
/** The server's own words for what has failed. */
const FAILURE = new RegExp("context_tokens = |did not answer within|did not answer in time|did not finish within|cannot be reached|Cannot connect to|cannot be used");

/**
 * @typedef {{turn: import("./turn.js").Turn, isLast: boolean, isBusy: boolean, onRetry?: () => void, onContinue?: () => void,
 *   onShowRun?: (node: string) => void}} Props `onShowRun`: this reader may see nodes and settings.
 */

/** @param {Props} props */
export function TurnEnd(props) {
  const { turn, isLast, isBusy, onContinue, onShowRun } = props;
  const canContinue = isLast && !isBusy && onContinue;
  if (turn.status === "reconnecting") return html`<p class="turn-note" role="status"><${Icon} name="loader" /> ${t("reconnecting")}</p>`;
  if (turn.status === "cancelled") {
    const isStopped = turn.error === STOPPED;
    return html`<div class="turn-note" data-state="stopped"><${Icon} name="square" />
      ${turn.error && !isStopped ? html`<span role="alert"><${OwnWords} meaning=${t("expired")} text=${turn.error} /></span>` : html`<span>${t("stopped")}</span>`}
      ${isStopped && canContinue && html`<button type="button" onClick=${onContinue}>${t("continue")}</button>`}</div>`;
  }
  if (turn.status === "interrupted" && isLast && !isBusy) {
    return html`<div class="turn-note"><${Icon} name="pause" /> <span>${t("goesOn")}</span>
      ${canContinue && html`<button type="button" onClick=${onContinue}>${t("continue")}</button>`}</div>`;
  }
  if (turn.error || turn.status === "failed") return html`<${ErrorCard} ...${props} />`;
  const { shown, downloads, spoken, pauses, query, files } = turn;
  const isEmpty = turn.status === "succeeded" && !shown.text.trim() && !downloads.length && !spoken.length && !pauses.length;
  if (!isEmpty || !(query || files.length)) return null;
  const node = turn.order.at(-1);
  return html`<div class="turn-note"><${Icon} name="info" /> <span>${t("nothingAnswered")}</span>
    ${onShowRun && html`<button type="button" onClick=${() => onShowRun(node ?? "")}>${t("showNode")}</button>`}</div>`;
}

/** @param {Props} props */
function ErrorCard({ turn, onRetry, onShowRun }) {
  const failed = turn.order.map((id) => turn.nodes[id]).find(({ error, status }) => error === turn.error || (error && status === "failed"));
  const advice = !onShowRun ? onRetry && "adviseVisitor" : adviceFor(turn.error);
  const cause = causeOf(turn.error);
  const title = failed && onShowRun ? t("nodeFailed", { node: failed.title }) : t("turnFailed");
  return html`<section class="error-card" role="alert">
    <h3><${Icon} name="circle-x" /> ${title}</h3>
    ${cause && html`<p class="cause"><${Told} text=${withMeaning(cause, turn.error)} /></p>`}
    ${advice && html`<p class="hint">${t(advice)}</p>`}
    ${cause !== turn.error && html`<details><summary>${t("wholeError")}</summary><pre tabindex="0"><${OwnWords} text=${turn.error} /></pre></details>`}
    <p class="row">${onRetry && html`<button type="button" class="primary" onClick=${onRetry}><${Icon} name="refresh-cw" /> ${t("retry")}</button>`}
      ${failed && onShowRun && html`<button type="button" onClick=${() => onShowRun(failed.id)}>${t("showNode")}</button>`}
      ${onShowRun && advice && advice !== "adviseRetry" && html`<a class="button" href="#/settings">
        ${t(advice === "adviseModel" ? "chooseModel" : "openSettings")}</a>`}</p>
  </section>`;
}

/** @param {string} error @returns {string} */
function adviceFor(error) {
  const status = STATUS.exec(error)?.[1] ?? "";
  return ADVICE.find(([about]) => about.test(status))?.[1] ?? ADVICE.find(([about]) => about.test(error))?.[1] ?? "adviseRetry";
}

/** @param {string} error @returns {string} Its first sentences, without options of the command line. */
function causeOf(error) {
  const sentences = error.split(/(?<=[.!?])\s+/).filter((sentence) => !/--[a-z]|\[providers|settings file/.test(sentence));
  const text = sentences.join(" ").trim() || error;
  return text.length > MAX_CAUSE ? `${text.slice(0, MAX_CAUSE)} …` : text;
}

/** @param {string} cause @param {string} error @returns {string} The cause, in 中文 after what it means, as refusals are. */
function withMeaning(cause, error) {
  const failure = STATUS.exec(error)?.[1] ?? FAILURE.exec(error)?.[0] ?? "";
  return [!error.includes("\n") && meaningOf("failures", failure), cause].filter(Boolean).join("\n");
}
