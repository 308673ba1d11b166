/** What an agent needs before its first message: a greeting, questions, and what is missing with the form that mends it. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { DatasetForm } from "./dataset_form.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { Line, ModelForm } from "./model_form.js";
import { OwnWords, Problem } from "./own_words.js";
import { isWebhook } from "./start_card.js";
import { meaningOf, t } from "./texts.js";

/** @type {Record<string, string>} */
const ICONS = { model: "brain", dataset: "book-open", key: "key-round", mcp_server: "server" };
/** @type {Record<string, string>} */
const MENDS = { model: "chooseModel", dataset: "addFiles", key: "enterKey" };

/** Longer greetings are set as texts, not as titles. */
const MAX_GREETING = 120;

/**
 * Show, before the first message, the greeting, questions and the card; afterwards only that a demo answers.
 * @param {{api: import("./api.js").Api, agent: string, begin: import("./begin.js").Begin | null, isFirst: boolean,
 *   isDemo: boolean, saves: number, start?: any, onAsk: (question: string) => void,
 *   onDraft: (node: string) => void}} props `isDemo`: the last turn was one.
 *   `saves` counts the versions that were saved here. `start` says what else starts the agent.
 */
export function Opening({ api, agent, begin, isFirst, isDemo, saves, start, onAsk, onDraft }) {
  const [needs, setNeeds] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [isOpen, setOpen] = useState(false);
  const [done, setDone] = useState("");
  const load = () => api.request(api.path(agent, "needs")).then(setNeeds, setProblem);
  const lacksServer = problem?.details?.diagnostics?.some((/** @type {any} */ { code }) => code === "mcp-server-unknown");
  useEffect(() => { load(); }, [api, agent, saves]);
  const mended = (/** @type {string} */ text = "") => {
    if (text) setDone(text);
    load();
  };
  const lacksKey = Boolean(needs?.missing.some((/** @type {any} */ need) => need.state === "demo"));
  const hasBar = needs ? needs.is_demo || lacksKey : isDemo;
  const isChat = begin?.mode === "conversational";
  const isLacking = Boolean(isFirst && needs && !needs.ready);
  const card = needs && html`<${Card} api=${api} agent=${agent} needs=${needs} done=${done} onMended=${mended} onDraft=${onDraft} />`;
  return html`
    ${hasBar && html`<div class="demo-bar" role="note"><${Icon} name="info" />
      <span><b>${t("demoAnswers")}</b> <span>${t(lacksKey && !needs.is_demo ? "noKeyFound" : "demoOf")}</span></span>
      ${needs && !isLacking && html`<button type="button" class="quiet" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        ${t("chooseModel")}</button>`}</div>`}
    ${hasBar && isOpen && !isLacking && card}
    ${isFirst && html`<div class="opening">
      ${!begin && !problem && html`<div class="ghost" role="status" aria-label=${t("loading")}></div>`}
      ${begin?.prologue && !isWebhook(begin) ? html`<article class="prologue" data-short=${begin.prologue.length <= MAX_GREETING}>
          <${Markdown} text=${begin.prologue} /></article>`
        : isChat && html`<h2>${t("greeting")}</h2>`}
      <${Problem} text=${problem?.message} />
      ${lacksServer && html`<a href="#/settings">${t("addServer")}</a>`}
      ${(!hasBar || isLacking) && card}
      ${start}
      ${!needs && !problem && html`<div class="ghost wide"></div>`}
      ${needs && isChat && html`<${Questions} needs=${needs} begin=${begin} onAsk=${onAsk} />`}</div>`}`;
}

/** @param {{needs: any, begin: any, onAsk: (question: string) => void}} props */
function Questions({ needs, begin, onAsk }) {
  if (Object.keys(begin.fields).length || !needs.questions.length) return null;
  const questions = needs.questions.map((/** @type {any} */ { kind, value }) => (kind === "own" ? value : t(`ask-${kind}`, { value })));
  return html`<ul class="questions" aria-label=${t("exampleQuestions")}>${questions.map((/** @type {string} */ question) => html`
    <li><button type="button" onClick=${() => onAsk(question)}>${question}</button></li>`)}</ul>`;
}

/**
 * @param {{api: import("./api.js").Api, agent: string, needs: any, done: string, onMended: (text?: string) => void,
 *   onDraft: (node: string) => void}} props
 *   `done` is what the last form has done.
 */
function Card({ api, agent, needs, done, onMended, onDraft }) {
  const [settings, setSettings] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const load = () => api.request("native/v1/settings").then(setSettings, (error) => setProblem(error.message));
  useEffect(() => { load(); }, [api]);
  const mended = (/** @type {string} */ text = "") => {
    load();
    onMended(text);
  };
  const missing = needs.missing.filter((/** @type {any} */ need) => need.state === "missing");
  const hasDemo = missing.some((/** @type {any} */ need) => need.code !== "webhook-closed");
  const shown = needs.missing.length || !needs.is_demo ? needs.missing : [{ kind: "model", name: "", users: [] }];
  const names = needs.present.map((/** @type {any} */ need) => need.name)
    .filter((/** @type {string} */ name) => name && !done.startsWith(`${name}:`));
  const setDemo = (/** @type {boolean} */ isDemo) => api.request("native/v1/settings", {
    method: "PATCH", body: { demo: { [agent]: isDemo } },
  }).then(() => mended(), (error) => setProblem(error.message));
  if (!shown.length) {
    return html`<p class="ready" role="status"><${Icon} name="circle-check" /> <b>${t("ready")}</b>
      <span class="hint">${[...new Set(names), done].filter(Boolean).join(" · ") || t("needsNothing")}</span></p>`;
  }
  return html`<section class="needs" aria-label=${t(missing.length ? "missing" : "chooseModel")} data-state=${missing.length ? "missing" : "demo"}>
    ${missing.length > 0 && html`<header><${Icon} name="alert-triangle" />
      <h3>${t("missing")}</h3></header>`}
    <ul>${shown.map((/** @type {any} */ need) => html`<${Need} key=${`${need.kind} ${need.name} ${need.node}`} api=${api} need=${need}
      settings=${settings} isOnly=${!missing.length} onMended=${mended} onDraft=${onDraft} />`)}</ul>
    ${settings && !settings.may_change && html`<p class="hint"><${OwnWords} meaning=${t("readOnly")} text=${settings.reason} /></p>`}
    ${done && html`<p class="outcome" data-state="done" role="status"><${Icon} name="circle-check" /> ${done}</p>`}
    <${Problem} text=${problem} />
    ${settings?.may_change && (needs.chose_demo || (hasDemo && !needs.is_demo)) && html`<footer>
      <button type="button" class="quiet" onClick=${() => setDemo(!needs.chose_demo)}><${Icon} name="play" />
        ${t(needs.chose_demo ? "endDemo" : "tryDemo")}</button></footer>`}
  </section>`;
}

/** @param {any} need @returns {string} Its kind. */
function labelOf(need) {
  return meaningOf("needs", need.kind) || need.label;
}

/** @param {string} name @returns {string} */
function shorten(name) {
  return /^[0-9a-f]{32}$/.test(name) ? `${name.slice(0, 8)}…` : name;
}

/**
 * @param {{api: import("./api.js").Api, need: any, settings: any, isOnly: boolean, onMended: (text?: string) => void,
 *   onDraft: (node: string) => void}} props `isOnly`: nothing else is shown, so that its form is open.
 */
function Need({ api, need, settings, isOnly, onMended, onDraft }) {
  const [isOpen, setOpen] = useState(isOnly);
  const reason = need.message?.replace(/^.* cannot be used: /, "") ?? "";
  const mend = settings?.may_change && MENDS[need.kind];
  return html`<li class="need"><div class="need-row">
      <${Icon} name=${ICONS[need.kind] ?? "settings"} />
      <div><b>${need.name ? html`${labelOf(need)} <code>${shorten(need.name)}</code>` : t("defaultModel")}</b>
        ${need.users.length > 0 && html` <span class="hint">${t("usedBy", { users: need.users.join(", ") })}</span>`}
        ${reason && need.state === "missing" && html`<p class="hint"><${OwnWords} meaning=${meaningOf("findings", need.code)}
          text=${`${reason[0].toUpperCase()}${reason.slice(1)}${mend ? "" : ` ${need.remedy}`}`} /></p>`}</div>
      ${mend && !isOnly && html`<button type="button" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${t(mend)}</button>`}
      ${need.node && html`<button type="button" onClick=${() => onDraft(need.node)}>${t("editDraft")}</button>`}</div>
    ${mend && isOpen && need.kind === "model" && html`<${ModelForm} api=${api} settings=${settings} wanted=${need.name} onSaved=${() => onMended()} />`}
    ${mend && isOpen && need.kind === "dataset" && html`<${DatasetForm} api=${api} dataset=${need.name} isNew=${true} onSaved=${onMended} />`}
    ${mend && isOpen && need.kind === "key" && html`<${KeyForm} api=${api} service=${need.name} onSaved=${() => onMended()} />`}
  </li>`;
}

/** @param {{api: import("./api.js").Api, service: string, onSaved: () => void}} props */
function KeyForm({ api, service, onSaved }) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    api.request("native/v1/settings", { method: "PATCH", body: { tools: { [service]: { api_key: key.trim() } } } })
      .then(onSaved, (error) => setProblem(error.message));
  };
  return html`<form class="mend" onSubmit=${save}>
    <${Line} label=${t("keyOf")} value=${key} onInput=${setKey} isSecret=${true} isRequired=${true} placeholder=${t("keyKept")} />
    <p class="mend-actions"><button class="primary">${t("save")}</button>
      </p><${Problem} text=${problem} /></form>`;
}
