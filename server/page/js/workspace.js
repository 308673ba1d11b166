/** One agent: its conversations, the chat, the graph and the panels beside each other. */

import { html, useCallback } from "../vendor/preact.js";
import { Chat } from "./chat.js";
import { useConversation } from "./conversation.js";
import { FileAccess } from "./files.js";
import { Opening } from "./ready_card.js";
import { RunView, useRunView } from "./run_view.js";
import { SessionList } from "./session_list.js";
import { t } from "./texts.js";

/** @param {{api: import("./api.js").Api, agent: string, session: string, onSession: (session: string) => void}} props */
export function Workspace({ api, agent, session, onSession }) {
  const panel = useRunView();
  const openFile = useCallback((/** @type {string} */ path) => api.open(path), [api]);
  const talk = useConversation({ api, agent, session, onSession, onCompare: () => panel.setExtra("compare") });
  const showRun = (/** @type {string} */ runId, /** @type {string} */ node = "") => {
    talk.choose(runId);
    panel.open(node);
  };
  const opening = (/** @type {boolean} */ isFirst) => html`<${Opening} api=${api} agent=${agent} begin=${talk.begin}
    isFirst=${isFirst} isDemo=${Boolean(talk.turn?.isDemo)} onAsk=${(/** @type {string} */ text) => talk.send(text, [])} />`;

  return html`<${FileAccess.Provider} value=${openFile}><div class="workspace">
    <${SessionList} api=${api} agent=${agent} sessions=${talk.sessions} session=${session} onSession=${onSession} />
    <${Chat} past=${talk.past} turn=${talk.turn} problem=${talk.problem} problems=${talk.problems} isBusy=${talk.isBusy}
      begin=${talk.begin}
      inputs=${talk.inputs} onInputs=${talk.setInputs} opening=${opening} onSend=${talk.send} onStop=${talk.stop} onAnswer=${talk.answer}
      onContinue=${() => talk.continueRun()} onGiveUp=${talk.giveUp} onCite=${panel.cite} onResend=${talk.resend}
      steps=${talk.steps} chosen=${talk.chosen} onShowRun=${showRun} />
    <section class="side" aria-label=${t("runPanel")}>
      <${RunView} api=${api} agent=${agent} session=${session} panel=${panel} talk=${talk} /></section>
  </div><//>`;
}
