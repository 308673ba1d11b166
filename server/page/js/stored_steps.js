/**
 * The steps of a run that is over: from its events or, if the server no longer has them, from the log of its nodes, with
 * what the state at its end says that they gave.
 */

import { loadVariables, nodeOf } from "./run_facts.js";
import { fold, goOn, newTurn } from "./turn.js";

/** @typedef {import("./turn.js").Turn} Turn */

/**
 * @param {import("./api.js").Api} api @param {string} agent @param {string} runId
 * @param {string[]} [formRuns] Those of the turn before it. @returns {Promise<Turn>}
 */
export async function loadSteps(api, agent, runId, formRuns = []) {
  const asked = formRuns.at(-1);
  const before = asked ? await loadSteps(api, agent, asked, formRuns.slice(0, -1)) : newTurn("");
  const nodes = api.request(api.path(agent, `runs/${runId}/nodes`)).catch(() => null); // the log of old runs is deleted
  let turn = { ...goOn(before, ""), runId: "" };
  const path = api.path(agent, `runs/${runId}/events?records=true&if_stored=true`); // a browser reports each status 410
  for await (const frame of api.frames(path, {})) turn = fold(turn, frame);
  if (!turn.runId) {
    const run = await api.request(api.path(agent, `runs/${runId}`));
    const outputs = readOutputs(await loadVariables(api, agent, run));
    turn = fold(rebuild(turn, run, await nodes, outputs), { id: "", event: "end", data: { run, error: null } });
  }
  const cost = (await nodes)?.usage.cost ?? 0;
  return { ...turn, usage: turn.usage && { ...turn.usage, cost } };
}

/** @param {any[]} variables @returns {Map<string, Record<string, any>>} The outputs of each node. */
function readOutputs(variables) {
  /** @type {Map<string, Record<string, any>>} */
  const outputs = new Map();
  for (const { name, value } of variables) {
    const node = nodeOf(name);
    if (node) outputs.set(node, { ...outputs.get(node), [name.slice(node.length + 1)]: value });
  }
  return outputs;
}

/**
 * Return what a run's log of nodes says. Of each node, its last visit has left its outputs, unless it has failed.
 * @param {Turn} since @param {any} run @param {any} nodes @param {Map<string, any>} outputs @returns {Turn}
 */
function rebuild(since, run, nodes, outputs) {
  let turn = { ...since, isEventless: true };
  const put = (/** @type {string} */ event, /** @type {any} */ data) => {
    turn = { ...turn, ...fold(turn, { id: "", event, data: { run_id: run.id, session_id: run.session_id, data } }) };
  };
  const visits = nodes?.visits ?? [];
  const last = new Map(visits.map((/** @type {any} */ visit) => [visit.node, visit]));
  for (const visit of visits) {
    const data = { component_id: visit.node, component_name: visit.title, component_type: visit.node.split(":")[0] };
    put("node_started", { ...data, created_at: visit.start_ms / 1000 });
    put("node_finished", {
      ...data, created_at: visit.start_ms / 1000, elapsed_time: visit.seconds, error: visit.is_failed ? " " : null,
      outputs: last.get(visit.node) === visit && !visit.is_failed ? outputs.get(visit.node) : undefined,
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
