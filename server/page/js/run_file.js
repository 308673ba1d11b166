/** The page of a run file: a stored session, step by step, from the data in the page. It sends no request. */

import { html, render, useMemo, useState } from "../vendor/preact.js";
import { shownTitle } from "./agent_titles.js";
import { Graph } from "./graph.js";
import { Markdown } from "./markdown.js";
import { NodeDrawer } from "./node_drawer.js";
import { OwnWords } from "./own_words.js";
import { asText, chunksAt, momentAt, nodesOf, titleOf, turnAt, turnsOf, wordsOf } from "./record.js";
import { RunPanel } from "./run_panel.js";
import { Facts } from "./steps.js";
import { switchLanguage, t } from "./texts.js";
import { Timeline } from "./timeline.js";
import { withoutThinking } from "./turn.js";
import { StepSlider, ValuesView } from "./values_view.js";

/** @typedef {import("./record.js").SessionRecord} SessionRecord */

/** @param {{record: SessionRecord}} props */
function RunFile({ record }) {
  const [at, setAt] = useState(Math.max(0, record.steps.length - 1));
  const [view, setView] = useState(/** @type {import("./run_panel.js").View} */ ("graph"));
  const [place, setPlace] = useState({ node: "", visit: -1 });
  const [language, setLanguage] = useState(0);
  const read = useMemo(() => async (/** @type {string} */ theme) => record.drawings[theme] ?? "", [record]);
  const turn = useMemo(() => turnAt(record, at), [record, at]);
  const turns = useMemo(() => turnsOf(record), [record]);
  const steps = useMemo(() => wordsOf(record), [record, language]);
  const stored = useMemo(() => nodesOf(record, turn.runId), [record, turn.runId]);
  const number = record.steps[at]?.turn;
  const own = steps.filter((_, index) => record.steps[index].turn === number);
  const first = record.steps.findIndex((step) => step.turn === number);
  const title = (/** @type {string} */ id) => titleOf(record, id);
  const go = (/** @type {string} */ checkpoint) => setAt(steps.findIndex((step) => step.checkpoint === checkpoint));
  const select = (/** @type {string} */ node, visit = -1) => setPlace({ node, visit });
  const openStep = (/** @type {string} */ checkpoint) => {
    go(checkpoint);
    setView("values");
  };
  const values = html`<${ValuesView} steps=${own} chosen=${steps[at]?.checkpoint ?? ""} onChoose=${go} titleOf=${title}
    load=${async (/** @type {any} */ step) => momentAt(record, steps.findIndex(({ checkpoint }) => checkpoint === step.checkpoint))} />`;
  return html`<div class="page run-file" data-language=${language}>
    <header class="top">
      <h1>${shownTitle(record.session.title)} · ${nameOf(record, turns)}</h1>
      <span class="space"></span>
      <button onClick=${() => { switchLanguage(); setLanguage(language + 1); }}>${t("language")}</button>
    </header>
    <main class="workspace">
      <${Conversation} record=${record} turns=${turns} at=${at} turn=${turn} />
      <section class="side" aria-label=${t("run")}><${RunPanel} view=${view} onView=${setView} turns=${turns} chosen=${String(number)}
        onChoose=${(/** @type {string} */ id) => setAt(turns.find(({ runId }) => runId === id)?.last ?? at)}
        above=${view !== "values" && html`<${StepSlider} steps=${own} at=${at - first} onChoose=${go} />`}
        parts=${{
          graph: html`<${Graph} read=${read} turn=${turn} selected=${place.node} onSelect=${select} />`,
          run: html`<${Timeline} turn=${turn} steps=${own} stored=${stored} titleOf=${title} node=${place.node} onNode=${select}
            onStep=${openStep} />`,
          values,
        }}
        drawer=${place.node && html`<${NodeDrawer} turn=${turn} node=${place.node} visit=${place.visit} titleOf=${title} stored=${stored}
          onVisit=${(/** @type {number} */ visit) => select(place.node, visit)} onClose=${() => select("")} />`} /></section>
    </main>
  </div>`;
}

/** @param {SessionRecord} record @param {ReturnType<typeof turnsOf>} turns @returns {string} A name in the reader's words. */
function nameOf({ session }, turns) {
  return /^[0-9a-f]{32}$/.test(session.name) && turns[0]?.question ? turns[0].question : session.name;
}

/** @param {{record: SessionRecord, turns: ReturnType<typeof turnsOf>, at: number, turn: import("./turn.js").Turn}} props */
function Conversation({ record, turns, at, turn }) {
  const known = record.steps.slice(0, at + 1).findLast((step) => !step.namespace)?.history ?? 0;
  return html`<section class="chat" aria-label=${t("conversation")}><div class="messages" tabindex="0"><div class="turns">
    <p class="hint">${t("removed")}
      ${record.values_cut > 0 ? ` ${record.values_cut.toLocaleString()} ${t("valuesCut")}` : ""}
      ${record.steps_left_out > 0 ? ` ${record.steps_left_out.toLocaleString()} ${t("stepsLeftOut")}` : ""}</p>
    ${turns.map(({ runId, messages, last }) => messages.map((message, number) => html`<${Message} key=${`${runId}-${number}`}
      record=${record} last=${last} text=${asText(record.values[message.text])} role=${message.role}
      isLater=${message.at >= known} />`))}
    <p class="hint" role="status">${t(turn.status)}</p>
    ${turn.error && html`<p class="problem"><${OwnWords} text=${turn.error} /></p>`}
  </div></div></section>`;
}

/**
 * Show a message; over an answer, the steps of its turn, of which `last` is the last one, and what was thought first.
 * @param {{record: SessionRecord, last: number, text: string, role: string, isLater: boolean}} props
 */
function Message({ record, last, text, role, isLater }) {
  const turn = useMemo(() => turnAt(record, last), [record, last]);
  const notYet = isLater && html`<p class="not-yet">${t("notYet")}</p>`;
  if (role === "user") {
    return html`<div class=${`entry user ${isLater ? "later" : ""}`}><article class="message user">
      <p class="plain" dir="auto">${text}</p></article>${notYet}</div>`;
  }
  const thinking = (text.match(/(?<=<think>)[\s\S]*?(?=<\/think>)/g) ?? []).join("\n\n");
  return html`<div class=${`entry ${isLater ? "later" : ""}`}>${notYet}
    <${Facts} turn=${{ ...turn, shown: { ...turn.shown, thinking } }} isChosen=${false} onUnfold=${() => undefined} onCite=${() => undefined} />
    <article class="message assistant"><${Markdown} text=${withoutThinking(text)} chunks=${chunksAt(record, last)} /></article></div>`;
}

const [root, data] = [document.getElementById("app"), document.getElementById("record")];
if (root && data) render(html`<${RunFile} record=${JSON.parse(data.textContent ?? "")} />`, root);
