/** The steps of a run that is over: from its events or, if the server no longer has them, from the log of its nodes. */

import { fold, newTurn } from "./turn.js";

/** @typedef {import("./turn.js").Turn} Turn */

/** @param {import("./api.js").Api} api @param {string} agent @param {string} runId @returns {Promise<Turn>} */
export async function loadSteps(api, agent, runId) {
  const nodes = api.request(api.path(agent, `runs/${runId}/nodes`)).catch(() => null); // the log of old runs is deleted
  let turn = newTurn("");
  const path = api.path(agent, `runs/${runId}/events?records=true&if_stored=true`); // a browser reports each status 410
  for await (const frame of api.frames(path, {})) turn = fold(turn, frame);
  if (!turn.runId) {
    const run = await api.request(api.path(agent, `runs/${runId}`));
    turn = fold(rebuild(runId, run.session_id, await nodes), { id: "", event: "end", data: { run, error: null } });
  }
  const cost = (await nodes)?.usage.cost ?? 0;
  return { ...turn, usage: turn.usage && { ...turn.usage, cost } };
}

/** @param {string} runId @param {string} sessionId @param {any} nodes @returns {Turn} What a run's log of nodes says. */
function rebuild(runId, sessionId, nodes) {
  let turn = { ...newTurn(""), isEventless: true };
  const put = (/** @type {string} */ event, /** @type {any} */ data) => {
    turn = { ...turn, ...fold(turn, { id: "", event, data: { run_id: runId, session_id: sessionId, data } }) };
  };
  for (const visit of nodes?.visits ?? []) {
    const data = { component_id: visit.node, component_name: visit.title, component_type: visit.node.split(":")[0] };
    put("node_started", { ...data, created_at: visit.start_ms / 1000 });
    put("node_finished", {
      ...data, created_at: visit.start_ms / 1000, elapsed_time: visit.seconds, error: visit.is_failed ? " " : null,
    });
  }
  const calls = nodes?.calls ?? [];
  for (const record of calls.flatMap(readCall)) put("agent_record", record);
  const thinking = calls.flatMap((/** @type {any} */ call) => call.answer.match(/(?<=<think>)[\s\S]*?(?=<\/think>)/g) ?? []);
  return { ...turn, shown: { ...turn.shown, thinking: thinking.join("\n\n") } };
}

/**
 * Return a model call as the records of an agent: its round, and the tools that it called.
 * @param {any} call @param {number} at @param {any[]} calls @returns {any[]}
 */
function readCall(call, at, calls) {
  if (!call.tools.length && !call.calls.length) return []; // no agent has called it
  const shared = { component_id: call.node, path: call.path, visit: call.visit, caller: "" };
  const iteration = calls.slice(0, at + 1).filter((other) => other.path === call.path && other.visit === call.visit).length;
  const created_at = call.start_ms / 1000 + call.seconds;
  const next = calls.slice(at + 1).find((other) => other.path === call.path && other.visit === call.visit);
  const results = (next?.messages ?? []).filter((/** @type {any} */ message) => message.role === "tool").slice(-call.calls.length);
  return [
    {
      ...shared, kind: call.error ? "iteration_failed" : "iteration_finished", iteration, created_at, model: call.model,
      seconds: call.seconds, usage: call.usage, error: call.error,
    },
    ...call.calls.map((/** @type {any} */ tool, /** @type {number} */ position) => ({
      ...shared, kind: "tool_finished", iteration, position, created_at, tool: tool.name, arguments: tool.arguments,
      result: results[position]?.content ?? null, seconds: 0,
    })),
  ];
}
