/** The form that makes a model usable: one that works here already, or a provider with its key, tried before it is saved. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { OwnWords } from "./own_words.js";
import { meaningOf, t } from "./texts.js";

const OTHER = "";

/**
 * @param {{api: import("./api.js").Api, settings: any, wanted: string, onSaved: () => void}} props `wanted` is the id of
 *   the model that is missing, "" for the default model. `settings` is what the server says of itself.
 */
export function ModelForm({ api, settings, wanted, onSaved }) {
  const [model, rest] = split(wanted);
  const known = settings.known.find((/** @type {any} */ each) => each.name.toLowerCase() === rest.toLowerCase());
  const [chosen, setChosen] = useState(settings.usable[0] ?? "");
  const [provider, setProvider] = useState(known?.name ?? (rest ? OTHER : "OpenAI"));
  const [ownName, setOwnName] = useState(known ? "" : rest);
  const [name, setName] = useState(model || (rest ? "" : "gpt-4.1-mini"));
  const [key, setKey] = useState("");
  const [url, setUrl] = useState("");
  const [trial, setTrial] = useState(/** @type {any} */ (null));
  const [work, setWork] = useState("");
  const offer = settings.known.find((/** @type {any} */ each) => each.name === provider);
  const owner = provider || ownName.trim() || "Own";
  const id = chosen || `${name.trim()}@${owner}`;
  const usual = key.trim() ? "" : offer?.base_url ?? "";
  const change = {
    ...(chosen ? {} : { providers: { [owner]: { api_key: key.trim(), base_url: url.trim() || usual } } }),
    ...(wanted === "" ? { default_model: id } : id === wanted ? {} : { models: { [wanted]: id } }),
  };
  useEffect(() => setTrial(null), [id, key, url]); // it was about other values
  /** @param {string} doing @param {() => Promise<any>} action */
  const run = async (doing, action) => {
    setWork(doing);
    setTrial(null);
    try {
      await action();
    } catch (/** @type {any} */ error) {
      setTrial({ problem: error.message });
    } finally {
      setWork("");
    }
  };
  const tryIt = () => run("trying", async () => setTrial(await api.request("native/v1/settings/try", {
    body: { model: id, ...(change.providers ? { providers: change.providers } : {}) },
  })));
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    run("saving", async () => {
      await api.request("native/v1/settings", { method: "PATCH", body: change });
      onSaved();
    });
  };
  return html`<form class="mend" onSubmit=${save}>
    ${settings.usable.length > 0 && html`<${Choice} label=${t("usableModel")} value=${chosen} onChange=${setChosen}
      options=${[...settings.usable.map((/** @type {string} */ each) => [each, each]), ["", t("anotherProvider")]]} />`}
    ${!chosen && html`<div class="mend-fields">
      <${Choice} label=${t("provider")} value=${provider} onChange=${setProvider}
        options=${[...settings.known.map((/** @type {any} */ each) => [each.name, each.name]), [OTHER, t("otherProvider")]]} />
      ${provider === OTHER && html`<${Line} label=${t("providerName")} value=${ownName} onInput=${setOwnName} isRequired=${true} />`}
      <${Line} label=${t("modelName")} value=${name} onInput=${setName} isRequired=${true} />
      <${Line} label=${t("keyOf")} value=${key} onInput=${setKey} isSecret=${true} isRequired=${Boolean(offer?.has_key && !url)}
        placeholder=${t("keyKept")} />
      <${Line} label=${offer?.base_url ? `${t("baseUrl")} (${t("optional")})` : t("baseUrl")} value=${url} onInput=${setUrl}
        kind="url" isRequired=${!offer?.base_url} placeholder=${offer?.base_url || "https://…/v1"} /></div>`}
    <p class="mend-actions"><button class="primary" disabled=${Boolean(work)}>${t(work === "saving" ? "saving" : "save")}</button>
      <button type="button" disabled=${Boolean(work)} onClick=${tryIt}>${t(work === "trying" ? "trying" : "tryIt")}</button>
      ${trial && html`<${Outcome} trial=${trial} />`}</p>
  </form>`;
}

/** @param {{trial: {problem: string, seconds?: number, answer?: string}}} props */
function Outcome({ trial }) {
  if (trial.problem) return html`<span class="outcome" data-state="failed" role="alert"><${Icon} name="circle-x" /> 
    <${OwnWords} meaning=${meaningOf("problems", "service")} text=${trial.problem} /></span>`;
  const seconds = (trial.seconds ?? 0).toFixed(1);
  return html`<span class="outcome" data-state="done" role="status"><${Icon} name="circle-check" />
    ${` ${t("answeredIn", { seconds, answer: trial.answer ?? "" })}`}</span>`;
}

/** @param {string} id @returns {[string, string]} The name and the provider in the id of a model. */
function split(id) {
  const parts = id.split("#")[0].split("@");
  return parts.length < 2 ? [id, ""] : [parts[0], parts[parts.length - 1]];
}

let fields = 0;

/** @returns {string} An id for a field, which nothing else on the page has. */
function useId() {
  return useState(() => `mend-${++fields}`)[0];
}

/** @param {{label: string, value: string, options: string[][], onChange: (value: string) => void}} props */
export function Choice({ label, value, options, onChange }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>${label}</label>
    <select id=${id} value=${value} onChange=${(/** @type {any} */ e) => onChange(e.target.value)}>
      ${options.map(([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`)}</select></div>`;
}

/**
 * @param {{label: string, value: string, onInput: (value: string) => void, isSecret?: boolean, isRequired?: boolean,
 *   kind?: string, placeholder?: string}} props
 */
export function Line({ label, value, onInput, isSecret, isRequired, kind, placeholder }) {
  const id = useId();
  return html`<div class="field"><label for=${id}>${label}</label>
    <input id=${id} type=${isSecret ? "password" : kind ?? "text"} autocomplete="off" spellcheck="false" value=${value}
      required=${isRequired} placeholder=${placeholder} onInput=${(/** @type {any} */ e) => onInput(e.target.value)} /></div>`;
}
