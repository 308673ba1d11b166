/** One node alone: with what the last run has left, with values of one's own, and with the draft if there is one. */

import { html, useState } from "../vendor/preact.js";
import { Costs, ModelCalls } from "./model_calls.js";
import { OwnWords, Problem } from "./own_words.js";
import { fromText, toText } from "./shown_values.js";
import { t } from "./texts.js";

/**
 * Show the inputs of a node, a button that runs it alone, and what it has returned.
 * @param {{api: import("./api.js").Api, agent: string, node: string, runId: string, inputs: Record<string, any>,
 *   dsl: any}} props `dsl` is the draft, or null.
 */
export function NodeAlone({ api, agent, node, runId, inputs, dsl }) {
  const [texts, setTexts] = useState(/** @type {Record<string, string>} */ ({}));
  const [result, setResult] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const names = Object.keys({ ...inputs, ...result?.inputs });

  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    const known = { ...inputs, ...result?.inputs };
    const changed = Object.entries(texts).map(([name, text]) => [name, fromText(text, known[name])]);
    const body = { node, inputs: Object.fromEntries(changed), ...(runId ? { run_id: runId } : {}), ...(dsl ? { dsl } : {}) };
    try {
      setResult(await api.request(api.path(agent, "node-runs"), { body }));
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  };
  return html`<section class="tool" aria-label=${t("runAlone")}>
    <form onSubmit=${run}>
      <p class="hint">${t(runId ? "runAloneHint" : "runAloneFresh")} ${dsl ? t("withDraft") : ""}</p>
      ${names.map((name, at) => html`<div class="field" key=${name}><label for=${`alone-${at}`}>${name}</label>
        <textarea id=${`alone-${at}`} rows="2" value=${texts[name] ?? toText(inputs[name] ?? result?.inputs[name])}
          onInput=${(/** @type {any} */ e) => setTexts({ ...texts, [name]: e.target.value })}></textarea></div>`)}
      <button class="primary" disabled=${isBusy}>${t(isBusy ? "running" : "runNow")}</button>
    </form>
    <${Problem} text=${problem} />
    ${result && html`<div class="result" role="status"><p class="hint"><${Costs} seconds=${result.seconds}
        attempts=${result.attempts} usage=${result.usage} /></p>
      ${result.error && html`<pre tabindex="0" class="problem"><${OwnWords} text=${result.error} /></pre>`}
      ${Object.entries(result.outputs).filter(([name]) => !name.startsWith("_")).map(([name, value]) =>
        html`<h4>${name}</h4><pre tabindex="0">${toText(value)}</pre>`)}
      <${ModelCalls} calls=${result.calls} /></div>`}
  </section>`;
}
