/** Two runs side by side: the answer, what it took, the path in the graph, and what each node has returned. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { citedChunks, nameMarks } from "./citations.js";
import { Markdown } from "./markdown.js";
import { Costs } from "./model_calls.js";
import { OwnWords, Problem } from "./own_words.js";
import { loadFacts, nodeOf } from "./run_facts.js";
import { isSame, toText } from "./shown_values.js";
import { TextDiff } from "./text_diff.js";
import { language, t } from "./texts.js";
import { withoutThinking } from "./turn.js";
import { nameOf } from "./values_view.js";

const RUNS = 100;

/**
 * Choose two runs of the agent, and compare them: at first the last two.
 * @param {{api: import("./api.js").Api, agent: string, sessions: any[], session: string, again: [string, string], stamp: string,
 *   titleOf: (node: string) => string, onSelect: (node: string) => void}} props `again`: a run, and the one that ran it again.
 */
export function Comparison({ api, agent, sessions, session, again, stamp, titleOf, onSelect }) {
  const [runs, setRuns] = useState(/** @type {any[]} */ ([]));
  const [own, setOwn] = useState(/** @type {[string, string] | null} */ (null)); // what the reader has chosen
  const [facts, setFacts] = useState(/** @type {import("./run_facts.js").RunFacts[]} */ ([]));
  const [problem, setProblem] = useState("");
  useEffect(() => {
    api.request(api.path(agent, `runs?page_size=${RUNS}`)).then((answer) => {
      // A copy of a run has played nothing: the run that goes on from it is the turn.
      setRuns(answer.runs.filter((/** @type {any} */ run) => run.start_ms !== run.end_ms));
    }, (error) => setProblem(error.message));
  }, [api, agent, stamp]);
  const pair = own ?? lastTwo(runs, session, again);
  useEffect(() => {
    let isCurrent = true;
    setFacts([]);
    setProblem("");
    if (pair[0] && pair[1]) {
      Promise.all(pair.map((run) => loadFacts(api, agent, run)))
        .then((found) => isCurrent && setFacts(found), (error) => isCurrent && setProblem(error.message));
    }
    return () => { isCurrent = false; };
  }, [api, agent, pair[0], pair[1], stamp]);

  const names = Object.fromEntries(sessions.map(({ id, name }) => [id, name]));
  const choose = (/** @type {number} */ at, /** @type {string} */ run) => setOwn(at ? [pair[0], run] : [run, pair[1]]);
  return html`<section class="comparison">
    <div class="pair">${[0, 1].map((at) => html`<div class="field"><label for=${`run-${at}`}>${t(at ? "secondRun" : "firstRun")}</label>
      <select id=${`run-${at}`} value=${pair[at]} onChange=${(/** @type {any} */ e) => choose(at, e.target.value)}>
        <option value=""></option>
        ${runs.map((run) => html`<option value=${run.id} selected=${run.id === pair[at]}>
          ${nameRun(run, names[run.session_id])}
        </option>`)}</select></div>`)}</div>
    <${Problem} text=${problem} />
    ${!(pair[0] && pair[1]) && html`<p class="hint">${t("chooseRuns")}</p>`}
    ${facts.length === 2 && html`<${Sides} first=${facts[0]} second=${facts[1]} titleOf=${titleOf} onSelect=${onSelect} />`}
  </section>`;
}

/**
 * Return what tells a run from others first: a narrow choice cuts the rest.
 * @param {any} run @param {string} [session] The name of its session. @returns {string}
 */
function nameRun(run, session = "") {
  const question = run.question || t("noQuestion");
  const words = session.startsWith("↳") ? [session, question] : [question, session];
  const place = new Set(words.filter((each, at) => each && !words[1 - at].endsWith(`: ${each}`)));
  return [new Date(run.start_ms).toLocaleTimeString(language()), t(run.status), ...place].join(" · ");
}

/**
 * Return the last run and the one before it or, if it ran another one again, that one.
 * @param {any[]} runs Newest first. @param {string} session @param {[string, string]} again @returns {[string, string]}
 */
function lastTwo(runs, session, again) {
  const played = runs.filter(({ status }) => !["refused", "interrupted"].includes(status));
  const newest = played.find((run) => run.session_id === session) ?? played[0];
  if (newest && newest.id === again[1]) return again;
  const before = played[played.indexOf(newest) + 1] ?? played.find((run) => run !== newest);
  return newest && before ? [before.id, newest.id] : ["", ""];
}

/**
 * @param {{first: import("./run_facts.js").RunFacts, second: import("./run_facts.js").RunFacts,
 *   titleOf: (node: string) => string, onSelect: (node: string) => void}} props
 */
function Sides({ first, second, titleOf, onSelect }) {
  const sides = [first, second];
  const [before, after] = sides.map(({ run }) => nameMarks(withoutThinking(run.answer), citedChunks(run)));
  return html`
    <h3>${t("answers")}</h3>
    <div class="pair">${sides.map(({ run, nodes }) => html`<article class="side-answer" data-status=${run.status}>
      <p class="hint">${t(run.status)} · <${Costs} seconds=${Math.max(0, run.end_ms - run.start_ms) / 1000}
        usage=${{ ...run.usage, cost: nodes.usage.cost }} /></p>
      ${run.answer ? html`<${Markdown} text=${withoutThinking(run.answer)} chunks=${citedChunks(run)} />` : run.error && html`<p class="problem"><${OwnWords} text=${run.error} /></p>`}
      </article>`)}</div>
    ${before !== after && html`<details open=${isAlike(before, after)}><summary>${t("difference")}</summary>
      <${TextDiff} before=${before} after=${after} /></details>`}
    <h3>${t("path")}</h3>
    <div class="pair">${sides.map(({ path, kept }, at) => html`<ol class="path">${path.map((node) => html`<li
      data-only=${!sides[1 - at].path.includes(node)}><button onClick=${() => onSelect(node)}>${titleOf(node)}</button>
      ${kept.includes(node) && html`<small>${t("keptResult")}</small>`}</li>`)}</ol>`)}</div>
    <h3>${t("outputsByNode")}</h3>
    <${Outputs} before=${first.variables} after=${second.variables} titleOf=${titleOf} />`;
}

/** @param {string} before @param {string} after @returns {boolean} Whether they differ in one place mostly. */
function isAlike(before, after) {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  return (start + end) * 2 > most;
}

/** @param {{before: Map<string, any>, after: Map<string, any>, titleOf: (node: string) => string}} props */
function Outputs({ before, after, titleOf }) {
  const names = [...new Set([...before.keys(), ...after.keys()])].filter(nodeOf);
  const different = names.filter((name) => !isSame(before.get(name), after.get(name)));
  return html`<p class="hint">${t("sameOutputs")} ${names.length - different.length}</p>
    ${different.map((name) => {
      const [one, other] = [before.get(name), after.get(name)];
      return html`<details open key=${name}><summary>${nameOf(name, titleOf)}</summary>
        ${typeof one === "string" && typeof other === "string"
          ? html`<${TextDiff} before=${one} after=${other} />`
          : html`<div class="pair"><pre tabindex="0">${toText(one)}</pre><pre tabindex="0">${toText(other)}</pre></div>`}</details>`;
    })}`;
}
