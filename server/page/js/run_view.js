/** The panel beside a conversation: the chosen turn in its tabs, the drawer of a node, and what the menu opens. */

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { Comparison } from "./comparison.js";
import { makeDownloads } from "./downloads.js";
import { DraftEditor } from "./draft_editor.js";
import { changedNodes } from "./drafts.js";
import { Graph, useDrawing } from "./graph.js";
import { Menu } from "./menu.js";
import { NodeAlone } from "./node_alone.js";
import { NodeDrawer, shownOf } from "./node_drawer.js";
import { readTitles } from "./node_titles.js";
import { Problem } from "./own_words.js";
import { SourcePanel } from "./panels.js";
import { useRunNodes } from "./run_facts.js";
import { RunPanel } from "./run_panel.js";
import { stepAfter, stepsOfRun } from "./step_words.js";
import { useMoments } from "./stored_moments.js";
import { TextDiff } from "./text_diff.js";
import { t } from "./texts.js";
import { Timeline } from "./timeline.js";
import { UseIt } from "./use_it.js";
import { ValuesView } from "./values_view.js";

const OPEN = ["running", "starting", "reconnecting"];

/**
 * @typedef {{node: string, visit: number, tool: ""|"draft"|"alone", isByItself: boolean}} Place What the drawer shows; visits
 *   count from 0. `isByItself`: a failure has opened it, not the reader.
 */
/** @type {Place} */
const NOWHERE = { node: "", visit: -1, tool: "", isByItself: false };

/** Return what the panel shows, which the conversation beside it changes as well. */
export function useRunView() {
  const [view, setView] = useState(/** @type {import("./run_panel.js").View} */ ("graph"));
  const [extra, showExtra] = useState(/** @type {""|"compare"|"use"} */ (""));
  const [place, setPlace] = useState(NOWHERE);
  const [chunk, setChunk] = useState(/** @type {any} */ (null));
  const show = (/** @type {import("./run_panel.js").View} */ wanted) => {
    showExtra("");
    setView(wanted);
  };
  const select = (/** @type {string} */ node, visit = -1, /** @type {Place["tool"]} */ tool = "", isByItself = false) => {
    setChunk(null);
    setPlace({ node, visit, tool, isByItself });
  };
  const setExtra = (/** @type {""|"compare"|"use"} */ wanted) => {
    showExtra(wanted);
    if (wanted) select(""); // it needs the room
  };
  const open = (/** @type {string} */ node) => {
    show(node ? "graph" : view);
    select(node);
  };
  const leave = () => {
    const back = chunk ? null : shownPlace();
    select("");
    back?.focus({ preventScroll: true });
  };
  const press = (/** @type {any} */ event) => {
    if (event.key !== "Escape" || !(chunk || place.node) || event.target.closest("input, textarea, select")) return;
    event.stopPropagation();
    leave();
  };
  return { view, show, open, extra, setExtra, place, select, leave, press, chunk, cite: setChunk };
}

/** @returns {HTMLElement | undefined} Where the node of the drawer was chosen: in the graph or in the run. */
function shownPlace() {
  const found = document.querySelectorAll('.picture [data-selected="true"], .timeline .line[aria-pressed="true"]');
  return /** @type {HTMLElement[]} */ ([...found]).find((one) => one.checkVisibility());
}

/**
 * Show the panel.
 * @param {{api: import("./api.js").Api, agent: string, session: string, panel: ReturnType<typeof useRunView>,
 *   talk: ReturnType<typeof import("./conversation.js").useConversation>, tools?: any}} props
 */
export function RunView({ api, agent, session, panel, talk, tools }) {
  const [step, setStep] = useState(/** @type {string | Place} */ ("")); // by its node, as long as the steps are not loaded
  const [problem, setProblem] = useState("");
  const { view, show, extra, setExtra, place, select, chunk } = panel;
  const { chosenTurn: turn, turns, chosen } = talk;
  const read = useDrawing(api, talk.version?.dsl);
  const titleOf = useMemo(() => readTitles(talk.version?.dsl), [talk.version]);
  const runId = turn?.runId || chosen || talk.currentRun;
  const stamp = `${runId}${turn?.status ?? ""}${turn?.checkpoint ?? ""}`;
  const stored = useRunNodes(api, agent, runId, stamp);
  const moments = useMoments(api, agent, session, `${talk.currentRun}${talk.turn?.status ?? ""}`,
    !extra && (view !== "graph" || Boolean(turn?.isEventless && place.node)));
  const isNewest = !chosen || chosen === turns.at(-1)?.runId;
  const steps = stepsOfRun(moments.steps, moments.runs, runId, isNewest);
  const canRerun = talk.canRerun && isNewest;
  useEffect(() => {
    setStep("");
    if (place.visit >= 0) select(place.node, -1, place.tool);
  }, [session, runId]);
  const failed = turn?.status === "failed" && turn.order.find((id) => turn.nodes[id].status === "failed");
  useEffect(() => {
    if (failed && (!place.node || place.isByItself)) select(failed, -1, "", true);
    else if (place.isByItself) select("");
  }, [session, turn?.runId, failed]);

  const openStep = (/** @type {string | Place} */ chosenStep) => {
    setStep(chosenStep);
    show("values");
  };
  const openValues = () => {
    openStep(place);
    select(""); // they need the room
  };
  const checkpoint = typeof step === "string" ? step : stepAfter(steps, step.node, step.visit)?.checkpoint ?? "";
  const unfold = (/** @type {"draft"|"alone"} */ tool, node = place.node) =>
    select(node, place.visit, place.tool === tool ? "" : tool);
  const known = [...new Set([...turn?.order ?? [], ...stored.visits.map((visit) => visit.node)])];
  const actions = [
    ...(canRerun && known.includes(place.node) ? [{ label: t("rerun"), icon: "play", onSelect: () => talk.rerun(place.node) }] : []),
    { label: t("editDraft"), icon: "pencil", isOn: place.tool === "draft", onSelect: () => unfold("draft") },
    { label: t("runAlone"), icon: "wrench", isOn: place.tool === "alone", onSelect: () => unfold("alone") },
    { label: t("compare"), icon: "git-compare", onSelect: () => setExtra("compare") },
  ];
  const graph = talk.version && html`<${Graph} read=${read} turn=${turn} selected=${place.node} onSelect=${select} actions=${actions} />`;
  const run = turn && html`<${Timeline} turn=${turn} steps=${steps} stored=${stored} titleOf=${titleOf} node=${place.node}
    onNode=${select} onStep=${openStep} />`;
  const values = html`<${Problem} text=${moments.problem} />
    ${moments.isLoading && session ? html`<p class="working" role="status">${t("loading")}</p>`
      : html`<${ValuesView} steps=${steps} chosen=${checkpoint} onChoose=${setStep} titleOf=${titleOf} Difference=${TextDiff}
          load=${(/** @type {any} */ each) => api.request(api.path(agent, `sessions/${session}/history/${each.checkpoint}`))}
          forking=${{ canFork: Boolean(talk.currentRun && !talk.isBusy), onFork: talk.fork }}
          more=${moments.hasMore ? moments.more : undefined} />`}`;
  const extras = {
    compare: () => html`<${Comparison} api=${api} agent=${agent} sessions=${talk.sessions} session=${session} again=${talk.again}
      key=${session} stamp=${stamp} titleOf=${titleOf} onSelect=${select} />`,
    use: () => html`<${UseIt} api=${api} agent=${agent} />`,
  };
  return html`<${RunPanel} view=${view} onView=${show} turns=${turns} chosen=${chosen} onChoose=${talk.choose}
    parts=${{ graph, run, values }} extra=${extra ? { title: t(extra), body: extras[extra]() } : null}
    onCloseExtra=${() => setExtra("")}
    tools=${html`<${PanelMenu} api=${api} agent=${agent} session=${session} talk=${talk} onExtra=${setExtra} onProblem=${setProblem} />${tools}`}
    drawer=${html`<${Problem} text=${problem} />
      ${chunk && html`<${SourcePanel} chunk=${chunk} onClose=${() => panel.cite(null)} />`}
      ${!chunk && place.node && html`<${NodeDrawer} turn=${turn} node=${place.node} visit=${place.visit} titleOf=${titleOf} stored=${stored}
        actions=${actions} onVisit=${(/** @type {number} */ visit) => select(place.node, visit, place.tool)}
        onClose=${panel.leave} onValues=${openValues}
        tool=${html`<${Tools} api=${api} agent=${agent} talk=${talk} turn=${turn} runId=${runId}
          place=${place} order=${known} canRerun=${canRerun} titleOf=${titleOf} />`} />`}`} />`;
}

/**
 * @param {{api: import("./api.js").Api, agent: string, session: string, onExtra: (extra: "compare"|"use") => void,
 *   talk: ReturnType<typeof import("./conversation.js").useConversation>, onProblem: (problem: string) => void}} props
 */
function PanelMenu({ api, agent, session, talk, onExtra, onProblem }) {
  const downloads = makeDownloads(api, agent);
  const turn = talk.chosenTurn;
  const isOver = Boolean(turn?.runId && !OPEN.includes(turn.status));
  const start = (/** @type {Promise<void>} */ work) => {
    onProblem("");
    work.catch((error) => onProblem(error.message));
  };
  const items = [
    { label: t("compare"), icon: "git-compare", onSelect: () => onExtra("compare") },
    { label: t("use"), icon: "webhook", onSelect: () => onExtra("use") },
    ...(session ? [
      { label: t("runFile"), icon: "download", onSelect: () => start(downloads.runFile(session)) },
      ...(isOver ? [{ label: t("events"), icon: "download", onSelect: () => start(downloads.events(turn?.runId ?? "")) }] : []),
    ] : []),
  ];
  return html`<${Menu} label=${t("moreActions")} items=${items} />`;
}

/**
 * Show the draft of a node, or the node alone, in its drawer.
 * @param {{api: import("./api.js").Api, agent: string, talk: ReturnType<typeof import("./conversation.js").useConversation>,
 *   turn: import("./turn.js").Turn | null, runId: string, place: Place, order: string[], canRerun: boolean,
 *   titleOf: (node: string) => string}} props
 */
function Tools({ api, agent, talk, turn, runId, place, order, canRerun, titleOf }) {
  const { draft } = talk;
  const dsl = draft && changedNodes(draft).length ? draft.dsl : null;
  if (place.tool === "alone") {
    return html`<${NodeAlone} key=${`alone-${place.node}`} api=${api} agent=${agent} node=${place.node} runId=${runId}
      inputs=${shownOf(turn?.nodes[place.node]?.inputs)} dsl=${dsl} />`;
  }
  if (place.tool !== "draft" || !draft) return null;
  return html`<${DraftEditor} key=${`draft-${place.node}`} api=${api} node=${place.node} draft=${draft} newest=${talk.newest}
    order=${order} canRerun=${canRerun} titleOf=${titleOf} onDraft=${talk.editDraft} onRerun=${talk.rerun} onSave=${talk.saveDraft} />`;
}
