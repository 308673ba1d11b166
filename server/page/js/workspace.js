/** One agent: its conversations, the chat, the graph and the panels beside each other. */

import { html, useCallback, useEffect, useMemo } from "../vendor/preact.js";
import { Chat } from "./chat.js";
import { useConversation } from "./conversation.js";
import { ConversationMenu } from "./conversation_menu.js";
import { FileAccess } from "./files.js";
import { Icon } from "./icons.js";
import { Divider } from "./layout.js";
import { readTitles } from "./node_titles.js";
import { Opening } from "./ready_card.js";
import { RunView, useRunView } from "./run_view.js";
import { SessionList } from "./session_list.js";
import { GONE, talkTitle } from "./sessions.js";
import { isWebhook, StartCard } from "./start_card.js";
import { language, t } from "./texts.js";

/**
 * @param {{api: import("./api.js").Api, agent: string, session: string, layout: import("./layout.js").Layout,
 *   isOffline: boolean, onSession: (session: string) => void, onTitle: (about: import("./agent_titles.js").About) => void}} props
 */
export function Workspace({ api, agent, session, layout, isOffline, onSession, onTitle }) {
  const panel = useRunView();
  const openFile = useCallback((/** @type {string} */ path) => api.open(path), [api]);
  const talk = useConversation({
    api, agent, session, isOffline, onSession, onCompare: () => panel.setExtra("compare"), onVisit: layout.closeDrawer,
  });
  useEffect(() => layout.closeDrawer, []);
  const showRun = (/** @type {string} */ runId, /** @type {string} */ node = "") => {
    talk.choose(runId);
    panel.open(node);
    layout.showPanel();
  };
  const cite = (/** @type {any} */ chunk) => {
    panel.cite(chunk);
    layout.showPanel();
  };
  const edit = (/** @type {string} */ node) => {
    panel.open(node);
    panel.select(node, -1, "draft");
    layout.showPanel();
  };
  const show = (/** @type {string} */ id) => {
    onSession(id);
    layout.closeDrawer();
  };
  const nodeTitleOf = useMemo(() => readTitles(talk.version?.dsl), [talk.version]);
  useEffect(() => { if (talk.begin) onTitle(talk.begin); }, [talk.begin?.title]);
  const { talks } = talk;
  const isCalled = isWebhook(talk.begin);
  const changes = {
    change: talks.change, remove: talks.remove, report: talk.report, api, isShareable: talks.isShareable,
    sharePath: (/** @type {string} */ id) => api.path(agent, `sessions/${id}/share`),
    onShared: (/** @type {any} */ row, /** @type {boolean} */ shared) => {
      talks.note({ ...row, shared });
      talks.listSessions();
    },
  };
  const isBehind = layout.drawer === "panel";
  const list = useMemo(() => html`<${SessionList} api=${api} agent=${agent} talks=${talks} session=${session} changes=${changes}
    isBehind=${isBehind} onSession=${show} />`, [api, agent, session, talk.sessions, talks.hasMore, isBehind, language()]); // not at each piece of a text
  const rate = (/** @type {string} */ runId, /** @type {any} */ feedback) => api.rate(agent, runId, feedback);
  const enlarge = html`<button type="button" class="icon-button enlarge" aria-label=${t(layout.isWhole ? "reduce" : "enlarge")}
    onClick=${layout.enlarge}><${Icon} name=${layout.isWhole ? "minimize-2" : "maximize-2"} /></button>`;
  const opening = (/** @type {boolean} */ isFirst) => html`<${Opening} api=${api} agent=${agent} begin=${talk.begin} saves=${talk.saves}
    isFirst=${isFirst} isDemo=${Boolean(talk.turn?.isDemo)} onAsk=${(/** @type {string} */ text) => talk.send(text, [])} onDraft=${edit}
    start=${!session && html`<${StartCard} api=${api} agent=${agent} begin=${talk.begin} dsl=${talk.version?.dsl} sessions=${talk.sessions} />`} />`;

  if (talk.isUnknown) return html`<main><${Gone} title="agentGone" back=${html`<a class="button primary" href="#/">${t("toAgents")}</a>`} /></main>`;
  return html`<${FileAccess.Provider} value=${openFile}><div class="workspace" data-panel=${layout.panel} data-drawer=${layout.drawer}
    style=${{ "--share": `${layout.share}%` }}>
    ${list}
    <main class="talk" inert=${Boolean(layout.drawer)}>
      ${talk.problem === GONE ? html`<${Gone} title="talkGone"
        back=${html`<button type="button" class="primary" onClick=${() => onSession("")}>${t("newSession")}</button>`} />` : html`<${TalkHead} key=${session} row=${talks.own}
        changes=${changes} onSave=${talk.save} />
      <${Chat} place=${`${agent}/${session}`} hasBox=${!isCalled} past=${talk.past} turn=${talk.turn} problem=${talk.problem} problems=${talk.problems} isBusy=${talk.isBusy} isLoading=${talk.isLoading}
      isOffline=${isOffline} begin=${talk.begin}
      inputs=${talk.inputs} onInputs=${talk.setInputs} opening=${opening} onSend=${talk.send} onStop=${talk.stop} onAnswer=${talk.answer}
      onContinue=${() => talk.continueRun()} onGiveUp=${talk.giveUp} onCite=${cite} onResend=${isCalled ? undefined : talk.resend}
      steps=${talk.steps} chosen=${talk.chosen} titleOf=${nodeTitleOf} onShowRun=${showRun} onRate=${rate} />`}</main>
    <${Divider} layout=${layout} />
    <section class="side" aria-label=${t("runPanel")} onKeyDown=${panel.press}>
      <${RunView} api=${api} agent=${agent} session=${session} panel=${panel} talk=${talk} tools=${enlarge} /></section>
    ${layout.drawer && html`<div class="veil" onClick=${layout.closeDrawer}></div>`}
  </div><//>`;
}

/** @param {{title: string, back: any}} props What stands for a conversation or an agent that has been deleted, or never was. */
function Gone({ title, back }) {
  return html`<section class="gone" role="alert"><${Icon} name="alert-triangle" /><h1>${t(title)}</h1>
    <p class="hint">${t("talkGoneHint")}</p>${back}</section>`;
}

/**
 * The name of the conversation that is open, and what can be done with it.
 * @param {{row: any, changes: import("./conversation_menu.js").Changes, onSave: (format: "md"|"json") => void}} props
 */
function TalkHead({ row, changes, onSave }) {
  const items = [
    { label: t("exportMarkdown"), icon: "download", onSelect: () => onSave("md") },
    { label: t("exportJson"), icon: "download", onSelect: () => onSave("json") },
  ];
  const title = row ? talkTitle(row) : t("newSession");
  return html`<header class="talk-head"><h1 title=${title}>${title}</h1>
    ${row && html`<${ConversationMenu} label=${t("talkMenu")} row=${row} changes=${changes} items=${items} />`}</header>`;
}
