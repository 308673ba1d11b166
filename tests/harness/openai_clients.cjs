// Calls the server with clients for Node, as openai_clients.py does; prints what they got as JSON:
// node openai_clients.cjs CLIENT URL AGENTS, with the folder of the packages in MODULES and the key in KEY.
const { createRequire } = require("node:module");

const load = createRequire(`${process.env.MODULES}/`);
const [client, url, agents] = [process.argv[2], process.argv[3], JSON.parse(process.argv[4])];
const [baseURL, apiKey] = [`${url}/v1`, process.env.KEY];
const SCHEMA = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const versionOf = (name) => require(`${process.env.MODULES}/node_modules/${name}/package.json`).version;

async function all(pieces) {
  const texts = [];
  for await (const piece of pieces) texts.push(piece);
  return texts;
}

function openai() {
  const OpenAI = load("openai");
  const server = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const say = (model, content, more) =>
    server.chat.completions.create({ model, messages: content ? [{ role: "user", content }] : [], ...more });
  const textOf = (answer) => answer.choices[0].message.content;
  return {
    version: () => versionOf("openai"),
    list: async () => (await all(server.models.list())).some((model) => model.id === agents.echo),
    chat: async () => textOf(await say(agents.echo, "hi")),
    stream: async () => (await all(await say(agents.model, "hi", { stream: true }))).map((chunk) => chunk.choices[0].delta.content),
    responses: async () => {
      const asked = await server.responses.create({ model: agents.form, input: "hi" });
      const answer = await server.responses.create({ model: agents.form, input: "42", previous_response_id: asked.id });
      const whole = await server.responses.stream({ model: agents.model, input: "hi" }).finalResponse();
      return [asked, answer, whole].map((each) => each.output_text);
    },
    form: async () => {
      const asked = await say(agents.form, "hi");
      return [asked, await say(agents.form, "", { session_id: asked.id, inputs: { size: { value: 42 } } })].map(textOf);
    },
    refusal: () => say("Nobody", "hi"),
    schema: () => say(agents.echo, "hi", { response_format: { type: "json_schema", json_schema: { name: "place", schema: SCHEMA } } }),
  };
}

function aiSdk(isChat) {
  const { generateText, streamText, Output, jsonSchema } = load("ai");
  const provider = load("@ai-sdk/openai").createOpenAI({ baseURL, apiKey });
  const model = (agent) => (isChat ? provider.chat(agent) : provider(agent));
  const headers = isChat ? { "X-Conversation-Id": "c1" } : {};
  const ask = (agent, more) => generateText({ model: model(agent), prompt: "hi", maxRetries: 0, headers, ...more });
  return {
    version: () => versionOf("@ai-sdk/openai"),
    chat: async () => (await ask(agents.echo)).text,
    stream: () => all(streamText({ model: model(agents.model), prompt: "hi" }).textStream),
    form: async () => {
      const question = { role: "user", content: "hi" };
      const asked = await ask(agents.form);
      const messages = [question, ...asked.response.messages, { role: "user", content: "42" }];
      return [asked.text, (await ask(agents.form, { prompt: undefined, messages })).text];
    },
    refusal: () => ask("Nobody"),
    schema: () => ask(agents.echo, { output: Output.object({ schema: jsonSchema(SCHEMA) }) }),
  };
}

async function mcp() {
  const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const session = new Client({ name: "test", version: "1" });
  const headers = { Authorization: `Bearer ${apiKey}` };
  await session.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }));
  const call = async (name, more) => {
    const result = await session.callTool({ name, arguments: { query: "hi" } }, undefined, more);
    return result.content[0].text;
  };
  return {
    version: () => versionOf("@modelcontextprotocol/sdk"),
    list: async () => (await session.listTools()).tools.some((tool) => tool.name === "Echo"),
    chat: () => call("Echo"),
    progress: async () => {
      const seen = [];
      await call("Echo", { onprogress: (each) => seen.push(each.message) });
      return seen[0];
    },
    refusal: () => call("Nobody"),
  };
}

const CLIENTS = { openai, "AI SDK": () => aiSdk(false), "AI SDK, chat": () => aiSdk(true), mcp };

async function main() {
  const results = {};
  for (const [name, act] of Object.entries(await CLIENTS[client]())) {
    try {
      results[name] = await act();
    } catch (error) {
      results[name] = `${error.name}: ${error.message}`;
    }
  }
  console.log(JSON.stringify(results));
  process.exit(0);
}

main();
