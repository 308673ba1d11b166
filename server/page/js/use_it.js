/** How programs and pages use the agent: snippets with its address, and with keys where a reader asks for them. */

import { html, useState } from "../vendor/preact.js";
import { Problem, withCode } from "./own_words.js";
import { t } from "./texts.js";

const EXPIRES_DAYS = 90;

/**
 * Return snippets for programs, which need an API key: that of the reader, or one in their environment.
 * @param {string} server @param {string} agent @param {string} key @returns {[string, string][]}
 */
function programs(server, agent, key) {
  const [shell, python] = key ? [key, JSON.stringify(key)] : ["$KEY", 'os.environ["KEY"]'];
  const os = key ? "" : "import os\n\n";
  return [
    ["curl", `curl ${server}/api/v1/agents/chat/completions \\
  -H "Authorization: Bearer ${shell}" -H "Content-Type: application/json" \\
  -d '{"agent_id": "${agent}", "query": "Hello", "stream": true}'`],
    ["RAGFlow SDK", `${os}from ragflow_sdk import RAGFlow

client = RAGFlow(${python}, "${server}")
agent = client.list_agents(id="${agent}")[0]
for message in agent.create_session().ask("Hello"):
    print(message.content)`],
    ["OpenAI", `${os}from openai import OpenAI

client = OpenAI(api_key=${python}, base_url="${server}/api/v1/agents_openai/${agent}")
answer = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "Hello"}])
print(answer.choices[0].message.content)`],
    ["LangGraph SDK", `# Serve the canvas file with LangGraph's API first: ragflow-lg studio my_canvas.json
# The name of the file is that of the graph.
from langgraph_sdk import get_sync_client

client = get_sync_client(url="http://127.0.0.1:8123")
thread = client.threads.create()
question = {"messages": [{"role": "user", "content": "Hello"}]}
state = client.runs.wait(thread["thread_id"], "my_canvas", input=question)
print(state["messages"][-1]["content"])`],
  ];
}

/** @param {string} server @param {string} agent @param {string} key @returns {string} A page's frame with the chat. */
function frame(server, agent, key) {
  return `<iframe src="${server}/chat/${agent}#auth=${key || "BETA_KEY"}&accent=%233454d1&theme=light" title="Chat" width="400" height="600"
  allow="clipboard-write" style="border: 0"></iframe>`;
}

/** @param {{api: import("./api.js").Api, agent: string}} props */
export function UseIt({ api, agent }) {
  const [isShown, setShown] = useState(false);
  const [pageKey, setPageKey] = useState("");
  const [problem, setProblem] = useState("");
  const server = location.origin + location.pathname.replace(/\/(page)?$/, "");
  const id = agent.replace(/[^\w-]/g, ""); // it comes from the address, and a reader runs what the snippets say
  const create = async () => {
    try {
      const body = { agents: [agent], name: t("embeddedChat"), expires_days: EXPIRES_DAYS };
      setPageKey((await api.request("native/v1/keys", { body })).key);
      setProblem("");
    } catch (/** @type {any} */ error) {
      setProblem(error.message);
    }
  };
  return html`<section>
    <p class="hint">${withCode(t("keyHint"))} · <a href="docs" target="_blank">${t("reference")}</a></p>
    <label class="row"><input type="checkbox" checked=${isShown}
      onChange=${(/** @type {any} */ e) => setShown(e.target.checked)} />${t("showKey")}</label>
    ${programs(server, id, isShown ? api.key : "").map(([name, text]) => html`<${Snippet} key=${name} name=${name} text=${text} />`)}
    <${Snippet} name=${t("embeddedChat")} text=${frame(server, id, pageKey)} />
    <p class="hint">${withCode(`${t("embeddedLook")} ${t("embeddedHint")}`)}</p>
    <button onClick=${create} disabled=${Boolean(pageKey)}>${t("createPageKey")}</button>
    <${Problem} text=${problem} />
  </section>`;
}

/** @param {{name: string, text: string}} props */
function Snippet({ name, text }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () => navigator.clipboard?.writeText(text).then(() => setCopied(true), () => undefined);
  return html`<h3>${name}</h3><pre tabindex="0" aria-label=${name}>${text}</pre>
    <button aria-label=${`${t("copy")}: ${name}`} onClick=${copy}>${isCopied ? t("copied") : t("copy")}</button>`;
}
