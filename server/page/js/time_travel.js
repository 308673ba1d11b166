/** The stored steps of a conversation as a timeline: choose one to see its state, to change it, and to go on from it. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { MomentView } from "./moment_view.js";
import { t } from "./texts.js";

const PAGE = 100;

/**
 * Show the timeline, newest step first.
 * @param {{api: import("./api.js").Api, agent: string, session: string, stamp: string, canFork: boolean,
 *   onFork: (step: any, changes: Record<string, any>, goesOn: boolean) => void}} props
 */
export function TimeTravel({ api, agent, session, stamp, canFork, onFork }) {
  const [steps, setSteps] = useState(/** @type {any[]} */ ([]));
  const [hasMore, setMore] = useState(false);
  const [chosen, setChosen] = useState("");
  const [problem, setProblem] = useState("");
  const load = (/** @type {any[]} */ before) =>
    api.request(api.path(agent, `sessions/${session}/history?limit=${PAGE}&offset=${before.length}`)).then((answer) => {
      setSteps([...before, ...answer.moments]);
      setMore(answer.has_more);
    }, (error) => setProblem(error.message));
  useEffect(() => {
    setSteps([]);
    setChosen("");
    if (session) load([]);
  }, [api, agent, session, stamp]);

  const move = (/** @type {KeyboardEvent} */ event) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const buttons = [.../** @type {HTMLElement} */ (event.currentTarget).querySelectorAll("button")];
    const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    if (!by || at < 0) return;
    event.preventDefault();
    buttons[at + by]?.focus();
  };
  const step = steps.find((each) => each.checkpoint === chosen);
  return html`<section class="panel" aria-label=${t("timeline")}>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!steps.length && html`<p class="hint">${t("noSteps")}</p>`}
    <ol class="steps" onKeyDown=${move}>${steps.map((each, at) => html`<li key=${each.checkpoint}>
      <button aria-pressed=${each.checkpoint === chosen} onClick=${() => setChosen(each.checkpoint)}>
        <time>${new Date(each.create_ms).toLocaleTimeString()}</time>
        <span>${nextOf(each, steps[at - 1])}</span>${each.region && html`<small>${each.region.title} · ${t("round")} ${each.round ?? 0}</small>`}
      </button></li>`)}</ol>
    ${hasMore && html`<button onClick=${() => load(steps)}>${t("more")}</button>`}
    ${step && html`<${MomentView} key=${chosen} api=${api} agent=${agent} session=${session} step=${step} canFork=${canFork}
      onFork=${onFork} />`}
  </section>`;
}

/**
 * Say what follows a step. The message of a turn is a step before Begin, and its end is one after the last node.
 * @param {any} step @param {any} newer The step after it, if there is one. @returns {string}
 */
function nextOf(step, newer) {
  const [next, then] = [step, newer].map((each) => each?.next.map((/** @type {any} */ node) => node.id).join());
  const isPair = next === then && !step.region && !newer.region;
  if (!step.next.length) return `■ ${t(isPair ? "lastNode" : "end")}`;
  const titles = `→ ${step.next.map((/** @type {any} */ node) => node.title).join(", ")}`;
  return isPair && next === "begin" ? `${titles} (${t("message")})` : titles;
}
