/** One agent: its conversations, the chat, the graph and the panels beside each other. */

import { html, useCallback, useState } from "../vendor/preact.js";
import { Chat } from "./chat.js";
import { Comparison } from "./comparison.js";
import { useConversation } from "./conversation.js";
import { FileAccess } from "./files.js";
import { Graph, useDrawing } from "./graph.js";
import { NodeDrawer } from "./node_drawer.js";
import { SourcePanel } from "./panels.js";
import { Opening } from "./ready_card.js";
import { Downloads, RunLog } from "./run_log.js";
import { SessionList } from "./session_list.js";
import { t } from "./texts.js";
import { TimeTravel } from "./time_travel.js";
import { UseIt } from "./use_it.js";

const VIEWS = ["graph", "log", "timeline", "compare", "use"];

/** @param {{api: import("./api.js").Api, agent: string, session: string, onSession: (session: string) => void}} props */
export function Workspace({ api, agent, session, onSession }) {
  const [side, setSide] = useState("graph");
  const [node, setNode] = useState("");
  const [chunk, setChunk] = useState(/** @type {any} */ (null));
  const openFile = useCallback((/** @type {string} */ path) => api.open(path), [api]);
  const talk = useConversation({ api, agent, session, onSession, onCompare: () => setSide("compare") });
  const { chosenTurn: turn, draft } = talk;
  const read = useDrawing(api, talk.version?.dsl);
  const stamp = `${turn?.runId ?? ""}${turn?.status ?? ""}`;
  const select = (/** @type {string} */ id) => {
    setChunk(null);
    setNode(id);
  };
  const showRun = (/** @type {string} */ runId, /** @type {string} */ id = "") => {
    talk.choose(runId);
    if (id) setSide("graph");
    select(id);
  };

  const tools = session && html`<div class="row chat-tools">
    <button onClick=${() => talk.save("md")}>${t("exportMarkdown")}</button>
    <button onClick=${() => talk.save("json")}>${t("exportJson")}</button></div>`;

  const opening = (/** @type {boolean} */ isFirst) => html`<${Opening} api=${api} agent=${agent} begin=${talk.begin}
    isFirst=${isFirst} isDemo=${Boolean(talk.turn?.isDemo)} onAsk=${(/** @type {string} */ text) => talk.send(text, [])} />`;

  const canRerun = talk.canRerun && Boolean(turn?.nodes[node]);
  const actions = [
    ...(canRerun ? [{ label: t("rerun"), onSelect: () => talk.rerun(node) }] : []),
    { label: t("runAlone"), onSelect: () => unfold(".alone") },
    { label: t("editDraft"), onSelect: () => unfold(".edit") },
  ];

  return html`<${FileAccess.Provider} value=${openFile}><div class="workspace">
    <${SessionList} api=${api} agent=${agent} sessions=${talk.sessions} session=${session} onSession=${onSession} />
    <${Chat} past=${talk.past} turn=${talk.turn} problem=${talk.problem} problems=${talk.problems} isBusy=${talk.isBusy}
      begin=${talk.begin}
      inputs=${talk.inputs} onInputs=${talk.setInputs} tools=${tools} opening=${opening} onSend=${talk.send} onStop=${talk.stop} onAnswer=${talk.answer}
      onContinue=${() => talk.continueRun()} onGiveUp=${talk.giveUp} onCite=${setChunk} onResend=${talk.resend}
      steps=${talk.steps} chosen=${talk.chosen} onShowRun=${showRun} />
    <div class="side">
      <nav class="row" role="tablist">${VIEWS.map((view) => html`<button role="tab" aria-selected=${side === view}
        onClick=${() => setSide(view)}>${t(view)}</button>`)}</nav>
      <div class=${side === "graph" ? "" : "hidden"}>
        ${talk.version && html`<${Graph} read=${read} turn=${turn} selected=${node} onSelect=${select} actions=${actions} />`}</div>
      ${side === "log" && html`<${RunLog} turn=${turn} onSelect=${select} />
        <${Downloads} api=${api} agent=${agent} session=${session} turn=${turn} />`}
      ${side === "timeline" && html`<${TimeTravel} api=${api} agent=${agent} session=${session} stamp=${turn?.checkpoint ?? ""}
        canFork=${Boolean(talk.currentRun && !talk.isBusy)} onFork=${talk.fork} />`}
      ${side === "compare" && html`<${Comparison} api=${api} agent=${agent} sessions=${talk.sessions} pair=${talk.pair} stamp=${stamp}
        onPair=${talk.setPair} onSelect=${select} />`}
      ${side === "use" && html`<${UseIt} api=${api} agent=${agent} />`}
      ${chunk && html`<${SourcePanel} chunk=${chunk} onClose=${() => setChunk(null)} />`}
      ${!chunk && node && html`<${NodeDrawer} api=${api} agent=${agent} turn=${turn} runId=${turn?.runId || talk.currentRun} node=${node} draft=${draft}
        canRerun=${talk.canRerun} onRerun=${talk.rerun} onClose=${() => setNode("")} onDraft=${talk.editDraft}
        onSaved=${() => talk.loadVersion("draft")} />`}
    </div>
  </div><//>`;
}

/** Open a part of the drawer of the selected node. @param {string} part */
function unfold(part) {
  const details = document.querySelector(`.drawer > ${part}`);
  if (!(details instanceof HTMLDetailsElement)) return;
  details.open = true;
  details.scrollIntoView({ block: "start" });
  details.querySelector("summary")?.focus();
}
