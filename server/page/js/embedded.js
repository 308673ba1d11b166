/** The chat for frames in other sites, `/chat/AGENT?auth=KEY`: the conversation alone, with the key of a page. */

import { html, render, useCallback, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { shownTitle } from "./agent_titles.js";
import { Api, keep, readKept, readVisitor } from "./api.js";
import { useBegin } from "./begin.js";
import { Chat } from "./chat.js";
import { readOption } from "./embedded_look.js";
import { FileAccess } from "./files.js";
import { answerText, givenValues, initialValues } from "./forms.js";
import { Icon } from "./icons.js";
import { SourcePanel } from "./panels.js";
import { isFinal, playPublic, reopenPublic } from "./public_turns.js";
import { upload, uploadValues } from "./runs.js";
import { t } from "./texts.js";
import { goOn, newTurn, settle, STOPPED } from "./turn.js";

const TALK = "ragflow-lg-talk";
const RETRY_MS = 3000;
const PAUSE_ID = /^[0-9a-f]{32}$/;
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,/;

/** @param {{agent: string, apiKey: string}} props */
function EmbeddedChat({ agent, apiKey }) {
  const api = useMemo(() => Object.assign(new Api(apiKey, "../"), { visitor: readVisitor(apiKey) }), [apiKey]);
  const talk = `${TALK} ${apiKey} ${agent}`;
  const session = useRef(readKept(talk));
  const contact = useRef(/** @type {Promise<any> | null} */ (null));
  const [past, setPast] = useState(/** @type {import("./turn.js").Turn[]} */ ([]));
  const [turn, setTurn] = useState(/** @type {import("./turn.js").Turn | null} */ (null));
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(Boolean(session.current));
  const [chunk, setChunk] = useState(/** @type {any} */ (null));
  const running = useRef(/** @type {AbortController | null} */ (null));
  const openFile = useCallback((/** @type {string} */ path) => api.open(path), [api]);
  const [attempt, setAttempt] = useState(0);
  const { begin, inputs, setInputs } = useBegin(async () => {
    try {
      contact.current = api.ragflow(`agentbots/${encodeURIComponent(agent)}/inputs`);
      const shown = await contact.current;
      document.title = shownTitle(shown.title);
      if (attempt) setProblem("");
      return { ...shown, fields: shown.inputs };
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
      if (!isFinal(error)) setTimeout(() => setAttempt(attempt + 1), RETRY_MS);
      throw error;
    }
  }, [api, agent, attempt]);

  const go = (/** @type {string} */ id) => {
    session.current = id;
    keep(talk, id);
  };
  /**
   * Show what is stored of the conversation, when no turn goes on in it.
   * @param {{id: string, answer: string, problem: string} | null} [refused] A form that stays as it is here if it is open, and
   *   the answer that the server has not taken.
   */
  const open = async (refused = null) => {
    const control = new AbortController();
    running.current = control;
    setBusy(true);
    const report = (/** @type {string} */ text) => { if (running.current === control) setProblem(text); };
    try {
      const { turn: last, earlier } = await reopenPublic(api, agent, session.current, control.signal, report);
      if (running.current !== control) return;
      const isOpen = refused && last?.pauses.some(({ id }) => id === refused.id);
      if (!isOpen) {
        setPast(earlier);
        setTurn(last);
      }
      const isLate = refused && refused.answer !== last?.query;
      setProblem(isOpen ? refused.problem : isLate ? t("late", { answer: refused.answer }) : "");
    } catch (/** @type {any} */ error) {
      if (running.current !== control || control.signal.aborted) return;
      if (error.status === 404) restart();
      setProblem(error.status !== 404 ? error.message : refused ? refused.problem : "");
    } finally {
      if (running.current === control) setBusy(false);
    }
  };
  useEffect(() => { if (session.current) open(); }, []);

  /**
   * @param {import("./turn.js").Turn} first @param {() => Promise<any>} build The body of the request.
   * @param {(problem: string) => any} [undo] Shows what was there before, if nothing begins; without it, `first` is shown as
   *   failed.
   */
  const follow = async (first, build, undo = undefined) => {
    const control = new AbortController();
    let hasBegun = false;
    running.current = control;
    setBusy(true);
    setProblem("");
    try {
      setTurn(first);
      await contact.current; // it makes the visitor known, to whom uploads and the session belong
      const body = { session_id: session.current, ...await build() };
      const show = (/** @type {import("./turn.js").Turn} */ now) => {
        hasBegun = true;
        if (running.current !== control) return;
        if (now.sessionId) go(now.sessionId);
        setTurn(now);
      };
      show(await playPublic(api, agent, first, body, show, control.signal));
    } catch (/** @type {any} */ error) {
      if (running.current !== control) return; // a new conversation has begun
      if (control.signal.aborted) setTurn((now) => now && { ...now, status: "cancelled", error: now.runId && STOPPED });
      else if (undo && !hasBegun) {
        setProblem(error.message);
        await undo(error.message);
      } else setTurn((now) => now && { ...now, status: "failed", error: error.message });
    } finally {
      if (running.current === control) setBusy(false);
    }
  };
  const send = (/** @type {string} */ text, /** @type {File[]} */ files) => {
    const first = newTurn(text, files.map(({ name }) => ({ name })));
    if (turn) setPast([...past, settle(turn)]);
    return follow(first, async () => {
      const values = begin ? await uploadValues(api, agent, givenValues(begin.fields, inputs)) : {};
      return { query: text, inputs: wrap(values), files: await upload(api, agent, files) };
    });
  };
  const answer = async (/** @type {string} */ pause, /** @type {any} */ values) => {
    if (!turn) return;
    const control = running.current;
    const isKnown = PAUSE_ID.test(pause);
    try {
      const sent = await uploadValues(api, agent, values);
      if (running.current !== control) return;
      const fields = turn.pauses.find(({ id }) => id === pause)?.fields;
      const text = answerText(sent, fields);
      const undo = (/** @type {string} */ why) => {
        setPast(past);
        setTurn({ ...turn, pauses: turn.pauses.map((each) => (each.id === pause ? { ...each, values } : each)) });
        return isKnown && open({ id: pause, answer: text, problem: why });
      };
      const others = turn.pauses.filter(({ id }) => id !== pause);
      const body = { query: "", inputs: wrap(sent), pauses: isKnown ? [pause] : [] };
      setPast([...past, settle(turn)]);
      await follow({ ...goOn(turn, text), pauses: others }, async () => body, undo);
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    }
  };

  const continueRun = () => {
    if (!turn) return;
    setPast([...past, { ...settle(turn), status: "answered", error: "" }]);
    follow(goOn(turn, ""), async () => ({ resume_from: turn.runId }), () => {
      setPast(past);
      setTurn(turn);
    });
  };
  const restart = () => {
    running.current?.abort();
    running.current = null;
    go("");
    setPast([]);
    setTurn(null);
    setBusy(false);
    setProblem("");
    setChunk(null);
    if (begin) setInputs(initialValues(begin.fields));
  };
  const rate = (/** @type {string} */ runId, /** @type {any} */ body) => api.rate(agent, runId, body);
  const isReopening = isBusy && !turn && !past.length;

  return html`<${FileAccess.Provider} value=${openFile}><main class="embedded">
    <header>
      ${PICTURE.test(begin?.avatar ?? "") && html`<img src=${begin?.avatar} alt="" />`}
      <h1>${begin ? shownTitle(begin.title) : ""}</h1>
      <button type="button" class="icon-button" aria-label=${t("newSession")} title=${t("newSession")} disabled=${!turn && !past.length && !session.current}
        onClick=${restart}><${Icon} name="plus" /></button></header>
    <${Chat} past=${past} turn=${turn} problem=${problem} problems=${{}} isBusy=${isBusy}
      isLoading=${isReopening} begin=${begin}
      inputs=${inputs} onInputs=${setInputs} onSend=${send} onStop=${isReopening ? undefined : () => running.current?.abort()} onAnswer=${answer}
      onCite=${setChunk} onRetry=${send} onContinue=${continueRun} onRate=${rate} />
    ${chunk && html`<${SourcePanel} chunk=${chunk} onClose=${() => setChunk(null)} />`}
  </main><//>`;
}

/** @param {Record<string, any>} values @returns {Record<string, any>} The fields as RAGFlow's routes take them. */
function wrap(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }]));
}

const agent = location.pathname.split("/").at(-1) ?? "";
const key = readOption("auth");
const root = document.getElementById("app");
if (root) {
  render(key ? html`<${EmbeddedChat} agent=${agent} apiKey=${key} />`
    : html`<main class="embedded"><p class="problem" role="alert">${t("pageKeyMissing")}</p></main>`, root);
}
