/** The calls of models in a run, with the prompts as they were sent. */

import { html } from "../vendor/preact.js";
import { OwnWords } from "./own_words.js";
import { countTokens, showCost, showSeconds, toText } from "./shown_values.js";
import { t } from "./texts.js";

/**
 * Show what something has cost: seconds, attempts, tokens and money, as far as they are known.
 * @param {{seconds?: number, attempts?: number, usage?: any}} props
 */
export function Costs({ seconds, attempts = 1, usage }) {
  const tokens = countTokens(usage);
  const parts = [
    seconds === undefined ? "" : `${showSeconds(seconds)} ${t("seconds")}`,
    attempts > 1 ? `${attempts} ${t("attempts")}` : "",
    tokens ? `${tokens} ${t("tokens")} (${usage.prompt_tokens} + ${usage.completion_tokens})` : "",
    usage?.cost ? `${t("cost")} ${showCost(usage.cost)}` : "",
  ];
  return html`<span class="costs">${parts.filter(Boolean).join(" · ")}</span>`;
}

/**
 * Show the calls of models, each with its prompts.
 * @param {{calls: any[], dropped?: number}} props
 */
export function ModelCalls({ calls, dropped = 0 }) {
  if (!calls.length) return null;
  return html`<section class="prompts"><h3>${t("prompts")}</h3>
    <p class="hint">${t("promptsHint")}</p>
    ${dropped > 0 && html`<p class="hint">${t("droppedCalls")} ${dropped}</p>`}
    ${calls.map((call, at) => html`<details key=${at} open=${calls.length === 1} data-status=${call.error ? "failed" : "done"}>
      <summary>${call.model} · <${Costs} seconds=${call.seconds} usage=${call.usage} />
        ${call.place ? ` · ${t("round", { number: call.place })}` : ""}</summary>
      ${call.system && html`<h4>${t("system")}</h4><pre tabindex="0">${call.system}</pre>`}
      ${call.messages.map((/** @type {any} */ message) => html`<h4>${t(message?.role ?? "")}</h4>
        <pre tabindex="0">${toText(message?.tool_calls ? message : message?.content ?? message)}</pre>`)}
      ${call.tools.length > 0 && html`<p class="hint">${t("tools")}: ${call.tools.map(toText).join(", ")}</p>`}
      ${call.images > 0 && html`<p class="hint">${t("images")}: ${call.images}</p>`}
      ${Object.keys(call.sampling).length > 0 && html`<p class="hint">${JSON.stringify(call.sampling)}</p>`}
      ${call.answer && html`<h4>${t("modelAnswer")}</h4><pre tabindex="0">${call.answer}</pre>`}
      ${call.calls.length > 0 && html`<h4>${t("calls")}</h4><pre tabindex="0">${toText(call.calls)}</pre>`}
      ${call.error && html`<h4>${t("error")}</h4><pre tabindex="0" class="problem"><${OwnWords} text=${call.error} /></pre>`}
    </details>`)}
  </section>`;
}
