/** The settings of the server as its operator sees them: what `doctor` finds, models, datasets, keys and schedules. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { shownTexts } from "./agent_titles.js";
import { DatasetForm } from "./dataset_form.js";
import { Icon } from "./icons.js";
import { Choice, Line, ModelForm } from "./model_form.js";
import { OwnWords, Problem } from "./own_words.js";
import { language, meaningOf, t } from "./texts.js";

/** @type {Record<string, string>} */
const MARKS = { well: "circle-check", note: "info", failed: "circle-x" };
/** @type {Record<string, string>} */
const TEXTS = { well: "isWell", note: "isNote", failed: "isFailed" };
const MAX_AGENTS = 50;
const MAX_TOOLS = 20;
/** How an MCP server is reached. Programs are started only by the settings file. */
const TRANSPORTS = [["streamable-http", "Streamable HTTP"], ["sse", "SSE"]];

/**
 * Return what a request gives, null until then, how to ask again, and what went wrong.
 * @param {() => Promise<any>} read @param {any[]} causes
 * @returns {{value: any, problem: string, load: () => Promise<void>}}
 */
function useAnswer(read, causes) {
  const [value, setValue] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const load = async () => {
    try {
      setValue(await read());
      setProblem("");
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    }
  };
  useEffect(() => { load(); }, causes);
  return { value, problem, load };
}

/** @param {{api: import("./api.js").Api}} props */
export function SettingsView({ api }) {
  const { value: settings, problem, load } = useAnswer(() => api.request("native/v1/settings"), [api]);
  const change = (/** @type {any} */ body) => api.request("native/v1/settings", { method: "PATCH", body }).then(load);
  return html`<main class="settings">
    <h1>${t("settings")}</h1>
    <${Problem} text=${problem} />
    ${settings && !settings.may_change && html`<p class="hint"><b>${t(settings.is_owner ? "readOnly" : "notSeen")}</b>
      ${" "}<${OwnWords} text=${settings.reason} /></p>`}
    ${settings && html`<${Models} api=${api} settings=${settings} onChange=${change} onSaved=${load} />
      ${settings.tools.length > 0 && html`<${Section} title=${t("toolKeys")}><ul class="rows">
        ${settings.tools.map((/** @type {string} */ name) => html`<${Row} key=${name} icon="key-round" title=${name} about=${t("keySet")}
          onRemove=${settings.may_change && (() => change({ tools: { [name]: null } }))} />`)}</ul><//>`}
      <${Datasets} api=${api} mayChange=${settings.may_change} />`}
    ${settings?.is_owner && html`<${Checks} api=${api} />`}
    ${settings && html`<${Servers} api=${api} settings=${settings} onChange=${change} onSaved=${load} />`}
    <${PageKeys} api=${api} />
    <${Schedules} api=${api} />
  </main>`;
}

/** @param {{title: string, action?: any, problem?: string, children?: any}} props */
function Section({ title, action, problem, children }) {
  return html`<section aria-label=${title}><header><h2>${title}</h2>${action}</header>
    <${Problem} text=${problem} />${children}</section>`;
}

/** @param {{icon: string, title: any, about?: any, state?: string, onRemove?: any, label?: string, children?: any}} props */
function Row({ icon, title, about, state, onRemove, label, children }) {
  return html`<li data-state=${state}><${Icon} name=${icon} />
    <div><span>${title}</span>${about && html`<p class="hint">${about}</p>`}${children}</div>
    ${onRemove && html`<button type="button" onClick=${onRemove}>${label ?? t("remove")}</button>`}</li>`;
}

/** @param {{api: import("./api.js").Api}} props */
function Checks({ api }) {
  const [isBusy, setBusy] = useState(false);
  const { value, problem, load } = useAnswer(() => api.request("native/v1/settings/checks"), [api]);
  const again = async () => {
    setBusy(true);
    await load();
    setBusy(false);
  };
  /** @type {Record<string, any[]>} */
  const found = { failed: [], note: [], well: [] };
  for (const check of value?.checks ?? []) found[!check.is_well ? "failed" : check.advice ? "note" : "well"].push(check);
  const count = found.well.length;
  const show = (/** @type {string} */ state) => found[state].map(({ area, what, advice }) => html`<${Row} key=${what} icon=${MARKS[state]}
    state=${state} about=${advice && html`<${OwnWords} text=${advice} />`} title=${html`<span class="unseen">${t(TEXTS[state])}: </span>
      <${OwnWords} meaning=${meaningOf("checks", area)} text=${what[0].toUpperCase() + what.slice(1)} />`} />`);
  const isWaiting = isBusy || (!value && !problem);
  return html`<${Section} title=${t("checks")} problem=${problem} action=${html`<button type="button" disabled=${isWaiting}
      onClick=${again}>${t(isWaiting ? "checking" : "checkAgain")}</button>`}>
    <ul class="rows">${show("failed")}${show("note")}</ul>
    ${count > 0 && html`<details><summary>${t("wellChecks", { count })}</summary><ul class="rows">${show("well")}</ul></details>`}
  <//>`;
}

/** @param {{api: import("./api.js").Api, settings: any, onChange: (body: any) => Promise<void>, onSaved: () => void}} props */
function Models({ api, settings, onChange, onSaved }) {
  const [isOpen, setOpen] = useState(false);
  const { may_change: mayChange, default_model: chosen } = settings;
  const saved = () => {
    setOpen(false);
    onSaved();
  };
  const action = mayChange && html`<button type="button" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${t("chooseModel")}</button>`;
  return html`<${Section} title=${t("models")} action=${action}>
    ${isOpen && html`<${ModelForm} api=${api} settings=${settings} wanted="" onSaved=${saved} />`}
    <ul class="rows">
      ${!settings.usable.length && html`<li><span class="hint">${t(settings.is_demo ? "onlyDemo" : "noModels")}</span></li>`}
      ${settings.usable.map((/** @type {string} */ id) => html`<${Row} key=${id} icon="brain" title=${html`<code>${id}</code>`} />`)}
      ${settings.providers.map((/** @type {any} */ each) => html`<${Row} key=${each.name} icon="key-round" title=${each.name}
        about=${[each.base_url, t(each.has_key ? "keySet" : "keyUnset")].filter(Boolean).join(" · ")}
        onRemove=${mayChange && (() => onChange({ providers: { [each.name]: null } }))} />`)}
      ${Object.entries(settings.models).map(([id, use]) => html`<${Row} key=${id} icon="refresh-cw" title=${html`<code>${use}</code>`}
        about=${t("inPlaceOf", { model: id })} onRemove=${mayChange && (() => onChange({ models: { [id]: null } }))} />`)}
      ${chosen && html`<${Row} icon="brain" title=${html`<code>${chosen}</code>`} about=${t("defaultModel")}
        onRemove=${mayChange && (() => onChange({ default_model: "" }))} />`}
    </ul><//>`;
}

/** @param {{api: import("./api.js").Api, mayChange: boolean}} props */
function Datasets({ api, mayChange }) {
  const [open, setOpen] = useState(/** @type {string | null} */ (null));
  const { value, problem, load } = useAnswer(() => api.ragflow("datasets?page_size=100"), [api]);
  const action = mayChange && html`<button type="button" aria-expanded=${open === ""}
    onClick=${() => setOpen(open === "" ? null : "")}>${t("newDataset")}</button>`;
  return html`<${Section} title=${t("datasets")} problem=${problem} action=${action}>
    ${open === "" && html`<${DatasetForm} api=${api} dataset="" isNew=${true} onSaved=${load} />`}
    <ul class="rows">${value && !value.length && html`<li><span class="hint">${t("noDatasets")}</span></li>`}
      ${value?.map((/** @type {any} */ each) => html`<${Row} key=${each.id} icon="book-open" title=${each.name}
        about=${t("datasetSize", { documents: each.document_count, chunks: each.chunk_count })}
        label=${t("addFiles")} onRemove=${mayChange && (() => setOpen(open === each.id ? null : each.id))}>
        ${open === each.id && html`<${DatasetForm} api=${api} dataset=${each.id} isNew=${false} onSaved=${load} />`}<//>`)}
    </ul><//>`;
}

/** @param {{api: import("./api.js").Api, settings: any, onChange: (body: any) => Promise<void>, onSaved: () => void}} props */
function Servers({ api, settings, onChange, onSaved }) {
  const [isOpen, setOpen] = useState(false);
  const { value, problem, load } = useAnswer(() => readServers(api), [api]);
  const { may_change: mayChange } = settings;
  const saved = () => {
    setOpen(false);
    onSaved();
    load();
  };
  const action = mayChange && html`<button type="button" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${t("addServer")}</button>`;
  return html`<${Section} title=${t("mcpServers")} problem=${problem} action=${action}>
    ${isOpen && html`<${ServerForm} api=${api} onSaved=${saved} />`}
    <ul class="rows">
      ${value && !value.length && html`<li><span class="hint">${t(mayChange ? "noSchedules" : "noServers")}</span></li>`}
      ${value?.map((/** @type {any} */ { id, url, tools, trouble }) => {
        const own = settings.mcp.find((/** @type {any} */ each) => each.name === id);
        const facts = [url, own && t(own.has_key ? "keySet" : "keyUnset"), tools && t("toolsOf", { names: tools })];
        return html`<${Row} key=${id} icon=${trouble ? "circle-x" : "server"} state=${trouble && "failed"} title=${id}
          about=${facts.filter(Boolean).join(" · ")}
          onRemove=${own && mayChange && (() => onChange({ mcp: { [id]: null } }).then(load))}><${Problem} text=${trouble} /><//>`;
      })}
    </ul><//>`;
}

/**
 * @param {import("./api.js").Api} api
 * @returns {Promise<any[]>} The MCP servers with the names of their tools, or with what is wrong if they list none.
 */
async function readServers(api) {
  const { mcp_servers: rows } = await api.ragflow("mcp/servers");
  return Promise.all(rows.map(async (/** @type {any} */ { id, url, variables }) => {
    const names = Object.keys(variables?.tools ?? {});
    const tools = names.slice(0, MAX_TOOLS).join(", ") + (names.length > MAX_TOOLS ? ", …" : "");
    const test = () => api.ragflow(`mcp/servers/${encodeURIComponent(id)}/test`, { method: "POST" });
    const trouble = tools ? "" : await test().then(() => t("noTools"), (error) => error.message.replace("Test MCP error: ", ""));
    return { id, url, tools, trouble };
  }));
}

/** @param {{api: import("./api.js").Api, onSaved: () => void}} props */
function ServerForm({ api, onSaved }) {
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [type, setType] = useState(TRANSPORTS[0][0]);
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    const entry = { url: url.trim(), type, api_key: key.trim() };
    api.request("native/v1/settings", { method: "PATCH", body: { mcp: { [name.trim()]: entry } } })
      .then(onSaved, (error) => setProblem(error.message));
  };
  return html`<form class="mend" onSubmit=${save}><div class="mend-fields">
      <${Line} label=${t("serverName")} value=${name} onInput=${setName} isRequired=${true} />
      <${Line} label=${t("baseUrl")} value=${url} onInput=${setUrl} kind="url" isRequired=${true} placeholder="https://…/mcp" />
      <${Choice} label=${t("transport")} value=${type} options=${TRANSPORTS} onChange=${setType} />
      <${Line} label=${`${t("token")} (${t("optional")})`} value=${key} onInput=${setKey} isSecret=${true} placeholder=${t("keyKept")} /></div>
    <p class="mend-actions"><button class="primary">${t("save")}</button></p><${Problem} text=${problem} /></form>`;
}

/** @param {{api: import("./api.js").Api}} props */
function PageKeys({ api }) {
  const { value, problem, load } = useAnswer(() => api.request("native/v1/keys"), [api]);
  return html`<${Section} title=${t("pageKeys")} problem=${problem}><ul class="rows">
    ${value && !value.keys.length && html`<li><span class="hint">${t("noPageKeys")}</span></li>`}
    ${value?.keys.map((/** @type {any} */ key) => html`<${Row} key=${key.id} icon="key-round"
      title=${html`<code>${key.prefix}…</code> ${key.name}`} label=${t("revoke")}
      about=${key.expires_at ? new Date(key.expires_at * 1000).toLocaleDateString(language()) : ""}
      onRemove=${() => api.request(`native/v1/keys/${key.id}`, { method: "DELETE" }).then(load)} />`)}
  </ul><//>`;
}

/** @param {{api: import("./api.js").Api}} props */
function Schedules({ api }) {
  const { value, problem, load } = useAnswer(async () => {
    const agents = (await api.agents()).slice(0, MAX_AGENTS);
    const lists = await Promise.all(agents.map(({ id }) => api.request(api.path(id, "schedules"))));
    return lists.flatMap(({ schedules }, at) =>
      schedules.map((/** @type {any} */ each) => ({ ...each, agent: agents[at] })));
  }, [api]);
  return html`<${Section} title=${t("schedules")} problem=${problem}><ul class="rows">
    ${value && !value.length && html`<li><span class="hint">${t("noSchedules")}</span></li>`}
    ${value?.map((/** @type {any} */ each) => html`<${Row} key=${each.id} icon="calendar-clock"
      title=${html`${shownTexts(each.agent).title} <code>${each.cron}</code>`}
      about=${each.error || (each.next_ms.length ? t("nextAt", { time: new Date(each.next_ms[0]).toLocaleString(language()) }) : "")}
      onRemove=${() => api.request(api.path(each.agent.id, `schedules/${each.id}`), { method: "DELETE" }).then(load)} />`)}
  </ul><//>`;
}
