/** The conversation that is open: its turns, what a reader does in it, and what the server says meanwhile. */

import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { ApiError } from "./api.js";
import { useBegin } from "./begin.js";
import { saveConversation } from "./conversation_export.js";
import { useOpenForms } from "./expiry.js";
import { answerText, fillForms, givenValues } from "./forms.js";
import { useProblem } from "./problems.js";
import { forkBefore, lastRun, loadSession, loadWithRun, paced, play, upload, uploadValues } from "./runs.js";
import { GONE, useSessions } from "./sessions.js";
import { t } from "./texts.js";
import { useTravel } from "./travel.js";
import { goOn, newTurn, reopen, settle, storedTurns } from "./turn.js";
import { useTurns, whole } from "./turns.js";
import { moveUnsent } from "./unsent.js";
import { useVersion } from "./versions.js";

/** What is open when the reader has left the agent. */
const LEFT = "left";
const RETRY_MS = 3000;

/**
 * Return the state of a conversation, and everything that can be done in it.
 * @param {{api: import("./api.js").Api, agent: string, session: string, isOffline: boolean,
 *   onSession: (session: string) => void, onCompare: () => void, onVisit: () => void}} place `onCompare` shows the two runs of
 *   `again`; `onVisit`: the reader has gone to another conversation.
 */
export function useConversation({ api, agent, session, isOffline, onSession, onCompare, onVisit }) {
  const [past, setPast] = useState(/** @type {import("./turn.js").Turn[]} */ ([]));
  const [turn, setTurn] = useState(/** @type {import("./turn.js").Turn | null} */ (null));
  const [problems, setProblems] = useState(/** @type {Record<string, string>} */ ({}));
  const [isBusy, setBusy] = useState(false);
  const [isLoading, setLoading] = useState(Boolean(session));
  const running = useRef(/** @type {AbortController | null} */ (null));
  const opened = useRef("");
  const { begin, inputs, setInputs, isUnknown } = useBegin(() => api.request(api.path(agent, "begin")), [api, agent], isOffline);
  const notice = useRef(""); // what the next conversation begins with
  const { problem, setProblem, report } = useProblem(isOffline);
  const { version, draft, newest, saves, loadVersion, editDraft, saveDraft } = useVersion(api, agent, report);
  const talks = useSessions(api, agent, session, onSession, () => { notice.current = t("talkDeleted"); });
  const { sessions, listSessions } = talks;

  const { currentRun, canRerun, again, setStoredRun, rerun, fork } = useTravel({
    api, agent, turn, past, opened, running, isBusy, setTurn, setPast, onCompare, report, listSessions, onSession,
    open, follow, runAside,
  });

  const { turns, chosen, choose, chosenTurn, steps } = useTurns(api, agent, session, past, turn);

  useEffect(() => {
    loadVersion("draft");
    return () => running.current?.abort();
  }, [api, agent]);
  useEffect(() => () => { opened.current = LEFT; }, []);

  useLayoutEffect(() => { // before its reader can send anything there
    if (session === opened.current) return;
    running.current?.abort();
    opened.current = session;
    onVisit();
    setTurn(null);
    setPast([]);
    setProblem(notice.current);
    notice.current = "";
    setStoredRun("");
    setLoading(Boolean(session));
    if (session) load();
  }, [session]);

  /** Show what another page has begun in this conversation. */
  const listed = talks.own ? `${talks.own.turns} ${talks.own.status}` : "";
  useEffect(() => {
    const isOther = () => opened.current !== session || running.current !== before;
    const before = running.current;
    if (!listed || isBusy || isLoading || isOther()) return;
    const shown = turn?.runId || past.findLast(({ runId }) => runId)?.runId;
    lastRun(api, agent, session).then((run) => (run && run.id !== shown && !isOther() ? open(session) : null))
      .catch(() => undefined);
  }, [listed]);

  function load() {
    open(session).catch((error) => {
      if (opened.current !== session) return;
      if (error.status !== 404) {
        report(error);
        setTimeout(() => { if (opened.current === session) load(); }, RETRY_MS);
        return;
      }
      setLoading(false);
      setProblem(GONE);
    });
  }

  /**
   * Show a stored session, and follow its run if it is not over.
   * @param {string} id @param {import("./turn.js").Turn | null} [since] The turn that is shown, if others have gone on with it.
   * @param {string} [sent] What this page has sent, perhaps too late.
   */
  async function open(id, since = null, sent = "") {
    const before = running.current;
    const { stored, run, runs } = await loadWithRun(api, agent, id);
    if (opened.current !== id || running.current !== before) return null;
    setLoading(false);
    talks.note(stored);
    setStoredRun(run?.id ?? "");
    if (stored.version_id !== version?.id) loadVersion(stored.version_id);
    const { turn: shown, earlier, isFollowed } = reopen(stored, run, runs, since);
    const isLate = sent && sent !== shown.query;
    const isExpired = !sent && isFollowed && since?.pauses.some((pause) => pause.expire_ms && pause.expire_ms <= Date.now());
    const notice = isLate ? t(since ? "late" : "formFirst", { answer: sent }) : isExpired ? t("expired") : "";
    const isShown = since || isFollowed || shown.pauses.length > 0 || ["interrupted", "cancelled"].includes(shown.status) || shown.error;
    setPast(isShown ? earlier : storedTurns(stored.messages, runs));
    setTurn(isShown ? shown : null);
    setProblem(notice);
    if (isFollowed) await follow(shown, null, notice);
    return shown;
  }

  /** Show what has happened to the forms that are open here. */
  async function look(/** @type {string} */ sent = "") {
    if (!turn) return;
    const before = running.current;
    const run = await lastRun(api, agent, turn.sessionId);
    const isSame = run?.id === turn.runId && run.status === "waiting" && run.error === turn.error;
    if (!isSame && running.current === before) await open(turn.sessionId, turn, sent);
  }
  useOpenForms(turn, isBusy, look);

  /**
   * @param {import("./turn.js").Turn} first @param {{path: string, body?: any} | null} request
   * @param {string} [notice] What to say meanwhile.
   * @returns {Promise<import("./turn.js").Turn | null | undefined>} The turn at its end, null if the reader has left it,
   *   undefined if the server has not begun it.
   */
  async function follow(first, request, notice = "") {
    const { nodes, order, visits, records, calls } = whole(first, steps.steps[first.stepsOf ?? ""]);
    const begun = { ...first, nodes, order, visits, records, calls, stepsOf: "" };
    const control = new AbortController();
    running.current?.abort();
    running.current = control;
    setBusy(true);
    setProblem(notice);
    setProblems({});
    setTurn(begun);
    const paint = paced(setTurn, control.signal);
    let hasRun = false;
    const show = (/** @type {import("./turn.js").Turn} */ now) => {
      if (control.signal.aborted) return;
      hasRun ||= Boolean(now.runId);
      paint(now);
      if (now.sessionId && now.sessionId !== opened.current) {
        moveUnsent(`${agent}/${opened.current}`, `${agent}/${now.sessionId}`);
        opened.current = now.sessionId;
        onSession(now.sessionId);
        listSessions();
      }
    };
    try {
      return await play(api, agent, begun, request, show, control.signal);
    } catch (/** @type {any} */ error) {
      if (control.signal.aborted) return null;
      hasRun ||= Boolean(begun.runId);
      if (error instanceof ApiError && error.details?.fields) setProblems(readFields(error.details.fields));
      else report(error);
      return hasRun ? null : undefined;
    } finally {
      paint.flush();
      if (running.current === control) {
        setBusy(false);
        listSessions();
      }
    }
  }

  /** Begin a run that is not shown: its reader has gone to another place meanwhile. */
  async function runAside(/** @type {string} */ path, /** @type {any} */ body = undefined) {
    await api.request(api.path(agent, `${path}?mode=background`), { method: "POST", body });
    await listSessions();
  }

  /**
   * Start a turn in a session, or in a new one if `place` is "".
   * @param {string} text @param {any[]} files @param {string} place @param {import("./turn.js").Turn[]} before
   * @param {() => void} undo Shows what was there before, if the server has not begun the turn.
   * @param {Record<string, string>} [fresh] For a new session. @returns {Promise<boolean>} Whether the server has begun it.
   */
  async function start(text, files, place, before, undo, fresh = {}) {
    const given = begin ? await uploadValues(api, agent, givenValues(begin.fields, inputs)) : {};
    const body = { query: text, files, inputs: given, ...(place ? { session_id: place } : fresh) };
    if (opened.current !== place) {
      await runAside("runs", body);
      return true;
    }
    setPast(before);
    const first = newTurn(text || answerText(given), files);
    if (await follow(first, { path: "runs?mode=stream", body }) !== undefined || running.current?.signal.aborted) return true;
    undo();
    const run = opened.current ? await lastRun(api, agent, opened.current).catch(() => null) : null;
    if (run?.status === "waiting") await open(opened.current, null, first.query); // for a form that this page has not shown
    return false;
  }
  const send = async (/** @type {string} */ text, /** @type {File[]} */ files) => {
    const place = opened.current;
    const undo = () => {
      setPast(past);
      setTurn(turn);
    };
    try {
      return await start(text, await upload(api, agent, files), place, settled(), undo);
    } catch (error) {
      report(error);
      return false;
    }
  };
  const resend = async (/** @type {number} */ at, /** @type {string} */ text) => {
    const from = opened.current;
    try {
      const all = settled();
      const place = await forkBefore(api, agent, all, at, text);
      listSessions();
      if (opened.current === from) {
        opened.current = place.session;
        onSession(place.session);
      }
      const undo = () => setTurn(null);
      if (!place.hasForm) await start(text, all[at]?.files ?? [], place.session, all.slice(0, at), undo, place.fresh);
      else if (opened.current === place.session) {
        const shown = await open(place.session);
        const asking = shown?.status === "interrupted" ? await continueRun(shown) : shown;
        if (asking?.pauses.length) {
          const pauses = fillForms(asking.pauses, text);
          if (pauses) setTurn({ ...asking, pauses });
          else setProblem(t("formFirst", { answer: text }));
        }
      }
      return true;
    } catch (error) {
      report(error);
      return false;
    }
  };
  const save = (/** @type {"md"|"json"} */ format) => loadSession(api, agent, session)
    .then((stored) => saveConversation(stored, begin?.title ?? agent, format)).catch(report);
  const answer = async (/** @type {string} */ pause, /** @type {any} */ values) => {
    if (!turn) return;
    const place = opened.current;
    try {
      const answers = { [pause]: await uploadValues(api, agent, values) };
      if (opened.current !== place) {
        await runAside(`runs/${turn.runId}/resume`, { answers });
        return;
      }
      const fields = turn.pauses.find(({ id }) => id === pause)?.fields;
      const first = goOn({ ...turn, pauses: turn.pauses.filter(({ id }) => id !== pause) }, answerText(answers[pause], fields));
      setPast(settled());
      const request = { path: `runs/${turn.runId}/resume?mode=stream`, body: { answers } };
      if (await follow(first, request) || running.current?.signal.aborted) return;
      setPast(past);
      setTurn({ ...turn, pauses: turn.pauses.map((each) => (each.id === pause ? { ...each, values } : each)) });
      await look(first.query);
    } catch (error) {
      report(error);
    }
  };
  const continueRun = async (last = turn, notice = "") => {
    if (!last) return undefined;
    const isStopped = last.status === "cancelled"; // what it has written stays, and is written again
    if (isStopped) setPast([...past, { ...settle(last), status: "answered", error: "" }]);
    const first = { ...(isStopped ? goOn(last, "") : last), status: "starting" };
    const ended = await follow(first, { path: `runs/${last.runId}/continue?mode=stream` }, notice);
    if (!ended) setTurn((now) => (now?.status === "starting" ? last : now)); // it can be tried again
    return ended;
  };
  /** @returns {import("./turn.js").Turn[]} All turns, none of which goes on. */
  const settled = () => (turn ? [...past, settle(turn)] : past);
  const giveUp = async () => {
    if (!turn) return;
    await stop();
    await look();
  };
  const stop = () => turn?.runId && api.request(api.path(agent, `runs/${turn.runId}/cancel`), { method: "POST" })
    .catch(report);

  return {
    version, draft, newest, saves, editDraft, saveDraft, sessions, talks, past, turn, problem, problems, isBusy, isLoading, begin,
    inputs, report, setInputs, currentRun, canRerun, again, rerun, fork, send, resend, save, answer, continueRun, stop,
    turns, chosen, choose, chosenTurn, steps, giveUp, isUnknown,
  };
}

/** @param {Record<string, any>} fields @returns {Record<string, string>} The problems by the field's own name. */
function readFields(fields) {
  return Object.fromEntries(Object.entries(fields).map(([name, text]) => [name.split(/[.@]/).at(-1) ?? name, String(text)]));
}
