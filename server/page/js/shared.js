/** A conversation that others read with a link, `/shared/TOKEN`: questions, answers and names of sources. */

import { html, render, useEffect, useState } from "../vendor/preact.js";
import { shownTitle } from "./agent_titles.js";
import { Api } from "./api.js";
import { ThemeSwitch } from "./header.js";
import { Icon } from "./icons.js";
import { Told } from "./own_words.js";
import { plain } from "./sessions.js";
import { language as chosenLanguage, switchLanguage, t } from "./texts.js";
import { newTurn, storedTurns } from "./turn.js";
import { TurnView } from "./turn_view.js";

/** @typedef {import("./turn.js").Turn} Turn */

const nothing = () => undefined;

function SharedPage() {
  const [shared, setShared] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [language, setLanguage] = useState(0);
  useEffect(() => {
    new Api("", "../").request(`native/v1/shared/${location.pathname.split("/").at(-1)}`).then(setShared, setProblem);
  }, []);
  const title = shared ? plain(shared.name) || shownTitle(shared.title) : "";
  useEffect(() => { if (title) document.title = `${title} · ragflow-lg`; }, [title]);
  return html`<div class="page" data-language=${language}>
    <header class="top">
      <span class="brand"><img src="../page/icon.svg" alt="" width="24" height="24" /><span>ragflow-lg</span></span>
      <span class="space"></span>
      <${ThemeSwitch} />
      <button type="button" class="icon-button" aria-label=${t("language")} title=${t("language")}
        onClick=${() => { switchLanguage(); setLanguage(language + 1); }}><${Icon} name="languages" /></button>
    </header>
    <main class="shared" aria-busy=${!shared && !problem}>
      ${problem && html`<${Gone} problem=${problem} />`}
      ${shared && html`<${SharedTalk} title=${title} shared=${shared} />`}
    </main></div>`;
}

/** @param {any} message @returns {Turn} The turn that shows one message: how it has ended, but neither values nor errors. */
function turnOf(message) {
  const turn = storedTurns([message], [])[0] ?? newTurn("");
  return { ...turn, query: message.is_form ? t("formAnswered") : turn.query, status: message.status || "answered" };
}

/** @param {{title: string, shared: any}} props */
function SharedTalk({ title, shared }) {
  const turns = shared.messages.map(turnOf).filter((/** @type {Turn} */ turn) => turn.query || turn.shown.text || turn.status !== "answered");
  const first = shared.messages[0]?.create_ms;
  return html`<div class="turns">
    <header><h1 dir="auto">${title}</h1>
      <p class="hint">${t("sharedTalk", { agent: shownTitle(shared.title) })}${first ? html` · <time>${new Date(first).toLocaleDateString(chosenLanguage())}</time>` : ""}</p></header>
    ${turns.map((/** @type {Turn} */ turn, /** @type {number} */ at) => html`<${TurnView} key=${at} turn=${turn} problems=${{}} isLast=${false} isBusy=${false} isChosen=${false}
      onUnfold=${nothing} onCite=${nothing} onAnswer=${nothing} />`)}
    ${!turns.length && html`<p class="hint">${t("sharedEmpty")}</p>`}</div>`;
}

/** @param {{problem: import("./api.js").ApiError}} props */
function Gone({ problem }) {
  const isGone = problem.status === 404;
  return html`<section class="gone"><${Icon} name=${isGone ? "link" : "alert-triangle"} />
    <h1>${isGone ? t("sharedGone") : html`<${Told} text=${problem.message} />`}</h1>
    ${isGone && html`<p class="hint">${t("sharedGoneHint")}</p>`}</section>`;
}

const root = document.getElementById("app");
if (root) render(html`<${SharedPage} />`, root);
