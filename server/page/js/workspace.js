/** One agent: its conversations, the chat, the graph and the panels, and what happens between them. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { ApiError } from "./api.js";
import { Chat } from "./chat.js";
import { Graph, useDrawing } from "./graph.js";
import { NodePanel, SourcePanel, Steps, UseIt } from "./panels.js";
import { Downloads, RunLog } from "./run_log.js";
import { lastRun, loadSession, play } from "./runs.js";
import { t } from "./texts.js";
import { newTurn } from "./turn.js";

const VIEWS = ["graph", "log", "timeline", "use"];

/** @param {{api: import("./api.js").Api, agent: string, session: string, onSession: (session: string) => void}} props */
export function Workspace({ api, agent, session, onSession }) {
  const [sessions, setSessions] = useState(/** @type {any[]} */ ([]));
  const [version, setVersion] = useState(/** @type {any} */ (null));
  const [messages, setMessages] = useState(/** @type {any[]} */ ([]));
  const [turn, setTurn] = useState(/** @type {import("./turn.js").Turn | null} */ (null));
  const [problem, setProblem] = useState("");
  const [problems, setProblems] = useState(/** @type {Record<string, string>} */ ({}));
  const [isBusy, setBusy] = useState(false);
  const [side, setSide] = useState("graph");
  const [node, setNode] = useState("");
  const [chunk, setChunk] = useState(/** @type {any} */ (null));
  const running = useRef(/** @type {AbortController | null} */ (null));
  const opened = useRef("");

  const read = useDrawing(api, version?.dsl);
  const listSessions = () => api.request(api.path(agent, "sessions?page_size=100"))
    .then((answer) => setSessions(answer.sessions), () => undefined);

  useEffect(() => {
    api.request(api.path(agent, "versions/draft")).then(setVersion, (error) => setProblem(error.message));
    listSessions();
    return () => running.current?.abort();
  }, [api, agent]);

  useEffect(() => {
    if (session === opened.current) return;
    running.current?.abort();
    opened.current = session;
    setTurn(null);
    setMessages([]);
    setProblem("");
    if (session) open(session).catch((error) => setProblem(error.message));
  }, [session]);

  /** Show a stored session, and follow its run if it is not over. */
  async function open(/** @type {string} */ id) {
    const [stored, run] = await Promise.all([loadSession(api, agent, id), lastRun(api, agent, id)]);
    if (opened.current !== id) return;
    const isOpen = run?.status === "running" || run?.status === "interrupted";
    const last = stored.messages.at(-1);
    const own = isOpen && last?.role === "user" ? stored.messages.slice(0, -1) : stored.messages;
    setMessages(own);
    const query = isOpen && last?.role === "user" ? last.content : "";
    const shown = { ...newTurn(query), runId: run?.id ?? "", sessionId: id, status: run?.status ?? "", pauses: stored.pauses };
    if (stored.pauses.length || isOpen) setTurn(shown);
    if (run?.status === "running") await follow(shown, null);
  }

  /**
   * @param {import("./turn.js").Turn} first @param {{path: string, body?: any} | null} request
   */
  async function follow(first, request) {
    const control = new AbortController();
    running.current?.abort();
    running.current = control;
    setBusy(true);
    setProblem("");
    setProblems({});
    setTurn(first);
    const show = (/** @type {import("./turn.js").Turn} */ now) => {
      if (control.signal.aborted) return;
      setTurn(now);
      if (now.sessionId && now.sessionId !== opened.current) {
        opened.current = now.sessionId;
        onSession(now.sessionId);
      }
    };
    try {
      await play(api, agent, first, request, show, control.signal);
    } catch (/** @type {any} */ error) {
      if (control.signal.aborted) return;
      if (error instanceof ApiError && error.details?.fields) setProblems(readFields(error.details.fields));
      else setProblem(error.message);
      if (request?.path.endsWith("resume?mode=stream")) setTurn(first);
    } finally {
      if (running.current === control) {
        setBusy(false);
        listSessions();
      }
    }
  }

  const keep = () => {
    if (!turn) return;
    const user = turn.query ? [{ role: "user", content: turn.query, reference: [] }] : [];
    const answer = turn.shown.text
      ? [{ role: "assistant", content: turn.shown.text, reference: Object.entries(turn.shown.chunks)
        .map(([number, chunk]) => ({ ...chunk, number })) }]
      : [];
    setMessages([...messages, ...user, ...answer]);
  };
  const send = async (/** @type {string} */ text, /** @type {File[]} */ files) => {
    keep();
    try {
      const sent = await upload(api, agent, files);
      const body = { query: text, files: sent, ...(opened.current ? { session_id: opened.current } : {}) };
      await follow(newTurn(text, sent), { path: "runs?mode=stream", body });
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    }
  };
  const answer = (/** @type {string} */ pause, /** @type {any} */ values) => {
    if (!turn) return;
    const request = { path: `runs/${turn.runId}/resume?mode=stream`, body: { answers: { [pause]: values } } };
    follow({ ...turn, error: "" }, request);
  };
  const goOn = () => turn && follow(turn, { path: `runs/${turn.runId}/continue?mode=stream` });
  const stop = () => turn?.runId && api.request(api.path(agent, `runs/${turn.runId}/cancel`), { method: "POST" })
    .catch((error) => setProblem(error.message));
  const rerun = (/** @type {string} */ from) => {
    if (!turn) return;
    opened.current = "";
    follow({ ...newTurn(turn.query), runId: "" }, { path: `runs/${turn.runId}/rerun?mode=stream`, body: { node: from } });
  };
  const fork = async (/** @type {any} */ step) => {
    try {
      const run = turn?.runId || (await lastRun(api, agent, opened.current))?.id;
      const made = await api.request(api.path(agent, `runs/${run}/fork`), { body: { checkpoint: step.checkpoint } });
      listSessions();
      onSession(made.session_id);
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    }
  };
  const select = (/** @type {string} */ id) => {
    setChunk(null);
    setNode(id);
  };
  const canRerun = Boolean(turn?.runId && !isBusy && !turn.pauses.length);

  return html`<div class="workspace">
    <${SessionList} sessions=${sessions} session=${session} onSession=${onSession} />
    <${Chat} messages=${messages} turn=${turn} problem=${problem} problems=${problems} isBusy=${isBusy} onSend=${send}
      onStop=${stop} onAnswer=${answer} onContinue=${goOn} onCite=${setChunk} />
    <div class="side">
      <nav class="row" role="tablist">${VIEWS.map((view) => html`<button role="tab" aria-selected=${side === view}
        onClick=${() => setSide(view)}>${t(view)}</button>`)}</nav>
      <div class=${side === "graph" ? "" : "hidden"}>
        ${version && html`<${Graph} read=${read} turn=${turn} selected=${node} onSelect=${select} />`}</div>
      ${side === "log" && html`<${RunLog} turn=${turn} onSelect=${select} />
        <${Downloads} api=${api} agent=${agent} session=${session} turn=${turn} />`}
      ${side === "timeline" && html`<${Steps} api=${api} agent=${agent} session=${session} stamp=${turn?.checkpoint ?? ""}
        onFork=${fork} />`}
      ${side === "use" && html`<${UseIt} agent=${agent} />`}
      ${chunk && html`<${SourcePanel} chunk=${chunk} onClose=${() => setChunk(null)} />`}
      ${!chunk && node && html`<${NodePanel} turn=${turn} node=${node} canRerun=${canRerun} onRerun=${rerun}
        onClose=${() => setNode("")} />`}
    </div>
  </div>`;
}

/** @param {Record<string, any>} fields @returns {Record<string, string>} The problems by the field's own name. */
function readFields(fields) {
  return Object.fromEntries(Object.entries(fields).map(([name, text]) => [name.split(/[.@]/).at(-1) ?? name, String(text)]));
}

/** @param {import("./api.js").Api} api @param {string} agent @param {File[]} files @returns {Promise<any[]>} */
async function upload(api, agent, files) {
  const sent = [];
  for (const file of files) {
    const form = new FormData();
    form.append("file", file);
    const answer = await api.ragflow(`agents/${encodeURIComponent(agent)}/upload`, { method: "POST", form });
    sent.push(...(Array.isArray(answer) ? answer : [answer]));
  }
  return sent;
}

/** @param {{sessions: any[], session: string, onSession: (session: string) => void}} props */
function SessionList({ sessions, session, onSession }) {
  const [wanted, setWanted] = useState("");
  const shown = sessions.filter((each) => (each.name || each.id).toLowerCase().includes(wanted.toLowerCase()));
  return html`<nav class="sessions" aria-label=${t("sessions")}>
    <button class="primary" onClick=${() => onSession("")}>${t("newSession")}</button>
    <input type="search" placeholder=${t("search")} aria-label=${t("search")} value=${wanted}
      onInput=${(/** @type {any} */ e) => setWanted(e.target.value)} />
    <ul>${shown.map((each) => html`<li key=${each.id}><button aria-current=${each.id === session}
      onClick=${() => onSession(each.id)}>${each.name || each.id}</button></li>`)}</ul>
  </nav>`;
}
