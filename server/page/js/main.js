/** The page: the key, the language, and which agent and session the address names. */

import { html, render, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { shownTexts } from "./agent_titles.js";
import { Agents } from "./agents.js";
import { Api, readKey, storeKey } from "./api.js";
import { Header } from "./header.js";
import { useLayout } from "./layout.js";
import { Problem, withCode } from "./own_words.js";
import { SettingsView } from "./settings_view.js";
import { language as chosenLanguage, loadMeanings, switchLanguage, t } from "./texts.js";
import { dropKept, forgetUnsent, keepUnsent, restoreUnsent } from "./unsent.js";
import { Workspace } from "./workspace.js";

/** The place of the settings, which no agent can have: ids have 32 digits. */
const SETTINGS = "settings";
const LOOK_MS = 3000;
const NO_TITLE = { agent: "", about: /** @type {import("./agent_titles.js").About} */ ({ title: "" }) };

/** @returns {{agent: string, session: string}} What the fragment of the address names. */
function readPlace() {
  const [, agent = "", session = ""] = location.hash.replace(/^#/, "").split("/");
  return { agent: decodeURIComponent(agent), session: decodeURIComponent(session) };
}

/** @param {string} agent @param {string} [session] */
function go(agent, session = "") {
  const place = agent ? `#/${encodeURIComponent(agent)}${session ? `/${encodeURIComponent(session)}` : ""}` : "#/";
  if (history.state?.drawer) location.replace(place); // in place of the drawer from which the reader goes
  else location.hash = place;
}

function App() {
  const [key, setKey] = useState(readKey);
  const [place, setPlace] = useState(readPlace);
  const [language, setLanguage] = useState(0);
  const [isRefused, setIsRefused] = useState(false);
  const [titled, setTitled] = useState(NO_TITLE);
  const layout = useLayout();
  const owner = useRef(key); // of what is not sent
  useMemo(() => {
    restoreUnsent(key);
    addEventListener("pagehide", () => keepUnsent(owner.current));
    addEventListener("pageshow", dropKept);
  }, []);
  const take = (/** @type {string} */ given) => {
    if (given && given !== owner.current) forgetUnsent();
    if (given) owner.current = given;
    setTitled(NO_TITLE);
    setKey(given);
  };
  const enter = (/** @type {string} */ given) => {
    storeKey(given);
    take(given);
    setIsRefused(false);
  };
  const api = useMemo(() => new Api(key, "", () => {
    if (readKey() !== key) return; // the answer is late: another key has been entered
    enter("");
    setIsRefused(true);
  }), [key]);

  useEffect(() => {
    const change = () => {
      const given = readKey();
      if (given !== key) take(given);
      setPlace(readPlace());
    };
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, [key]);

  const isAgent = Boolean(key && place.agent && place.agent !== SETTINGS);
  const title = titled.agent === place.agent ? shownTexts(titled.about).title : ""; // else it is not yet known
  const name = !key ? "" : place.agent === SETTINGS ? t("settings") : isAgent ? title : "";
  useEffect(() => { document.title = name ? `${name} · ragflow-lg` : "ragflow-lg"; }, [name]);

  const { isAway, visit } = useReach(api);
  useEffect(() => { loadMeanings().then(() => setLanguage((number) => number + 1)); }, [chosenLanguage()]);

  return html`<div class="page" data-language=${language}>
    <${Header} title=${name} layout=${isAgent ? layout : null} isSignedIn=${Boolean(key)} onSettings=${() => go(SETTINGS)}
      onLanguage=${() => { switchLanguage(); setLanguage(language + 1); }} onSignOut=${() => { forgetUnsent(); enter(""); }} />
    ${isAway && !isAgent && html`<p class="offline" role="status">${t("offline")}</p>`}
    ${!key
      ? html`<${SignIn} isRefused=${isRefused} onKey=${enter} />`
      : place.agent === SETTINGS
        ? html`<${SettingsView} api=${api} />`
      : place.agent
        ? html`<${Workspace} key=${`${key} ${place.agent}`} api=${api} agent=${place.agent} session=${place.session}
            layout=${layout} isOffline=${isAway} onTitle=${(/** @type {import("./agent_titles.js").About} */ about) => setTitled({ agent: place.agent, about })}
            onSession=${(/** @type {string} */ session) => go(place.agent, session)} />`
        : html`<${Agents} key=${visit} api=${api} onOpen=${(/** @type {string} */ agent, /** @type {import("./agent_titles.js").About} */ about) => {
          setTitled({ agent, about });
          go(agent);
        }} />`}
  </div>`;
}

/**
 * Watch whether the server can be reached; ask again until it can.
 * @param {Api} api @returns {{isAway: boolean, visit: number}} `visit` is another one after each time without the server.
 */
function useReach(api) {
  const [isAway, setAway] = useState(false);
  const [visit, setVisit] = useState(0);
  api.onReach = (isReached) => setAway(!isReached);
  useEffect(() => {
    if (!isAway) return undefined;
    const timer = setInterval(() => fetch("page/tokens.css", { cache: "no-store" }).then(() => setAway(false), () => undefined), LOOK_MS);
    return () => {
      clearInterval(timer);
      setVisit((number) => number + 1);
    };
  }, [isAway]);
  return { isAway, visit };
}

/** @param {{isRefused: boolean, onKey: (key: string) => void}} props */
function SignIn({ isRefused, onKey }) {
  const [given, setGiven] = useState("");
  const [problem, setProblem] = useState("");
  const [isWrong, setWrong] = useState(isRefused);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await new Api(given.trim()).ragflow("agents?page=1&page_size=1");
      onKey(given.trim());
    } catch (/** @type {any} */ error) {
      const isKey = error.status === 401 || error.code === "109";
      setWrong(isKey);
      setProblem(isKey ? "" : error.message);
    }
  };
  return html`<main class="sign-in"><form onSubmit=${submit}>
    <img src="page/icon.svg" alt="" width="40" height="40" />
    <h1>ragflow-lg</h1>
    <div class="field"><label for="key">${t("key")}</label>
      <input id="key" type="password" autocomplete="off" value=${given} required
        onInput=${(/** @type {any} */ e) => setGiven(e.target.value)} /></div>
    <p class="hint">${withCode(t("keyHint"))}</p>
    <${Problem} text=${isWrong ? t("refused") : problem} />
    <button class="primary">${t("signIn")}</button>
  </form></main>`;
}

const root = document.getElementById("app");
if (root) render(html`<${App} />`, root);
