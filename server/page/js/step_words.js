/** The stored steps of a conversation in words: after which nodes they stand, and which are the engine's own. No DOM. */

import { t } from "./texts.js";

/**
 * @typedef {{checkpoint: string, create_ms: number, next: {id: string, title: string}[],
 *   region: {id: string, title: string} | null, round: number | null}} Moment
 * @typedef {Moment & {after: {id: string, title: string}[], label: string}} Step `after` are the nodes that have just run:
 *   none at a step of the engine.
 */

/** @param {Moment[]} moments In any order. @returns {Step[]} Oldest first; of the two at a start, the one with the input. */
export function readSteps(moments) {
  /** @type {Map<string, {next: {id: string, title: string}[], isStart: boolean, checkpoint: string}>} */
  const places = new Map();
  const doubled = new Set();
  const sorted = [...moments].sort((one, other) => (one.checkpoint < other.checkpoint ? -1 : 1));
  const steps = sorted.map((moment) => {
    const region = moment.region?.id ?? "";
    const before = places.get(region);
    const isStart = !before || isStartAgain(before, moment);
    const after = isStart ? [] : before.next;
    if (isStart && before?.isStart) doubled.add(before.checkpoint);
    places.set(region, { next: moment.next, isStart: isStart && !before?.isStart, checkpoint: moment.checkpoint });
    return { ...moment, after, label: labelOf(moment, after, isStart) };
  });
  return steps.filter(({ checkpoint }) => !doubled.has(checkpoint));
}

/**
 * Return whether a step begins a turn or a region: what comes is stored, and then once more with the input.
 * @param {{next: {id: string}[], isStart: boolean}} before @param {Moment} moment @returns {boolean}
 */
function isStartAgain(before, moment) {
  const ids = (/** @type {{id: string}[]} */ nodes) => nodes.map(({ id }) => id).join("\n");
  return Boolean(moment.next.length) && (!before.next.length || (before.isStart && ids(before.next) === ids(moment.next)));
}

/** @param {Moment} moment @param {{title: string}[]} after @param {boolean} isStart @returns {string} */
function labelOf(moment, after, isStart) {
  const titles = after.map(({ title }) => title).join(", ");
  const words = titles ? `${t("after")} ${titles}`
    : isStart ? t(moment.region ? "regionBegins" : "messageArrives") : t("endOfTurn");
  const round = moment.region ? ` · ${moment.region.title}, ${t("round", { number: (moment.round ?? 0) + 1 })}` : "";
  return words + round;
}

/**
 * Return the steps of a run: those since it began, until the next one. What a fork has copied belongs to its first run.
 * @param {Step[]} steps @param {{id: string, start_ms: number}[]} runs @param {string} runId
 * @param {boolean} isNewest Whether it is the last turn, whose run may be one of the session that was forked.
 * @returns {Step[]}
 */
export function stepsOfRun(steps, runs, runId, isNewest) {
  const ordered = [...runs].sort((one, other) => one.start_ms - other.start_ms);
  const wanted = ordered.some(({ id }) => id === runId) ? runId : isNewest ? ordered.at(-1)?.id : "";
  return steps.filter((step) => {
    const run = ordered.findLast((one) => one.start_ms <= step.create_ms) ?? ordered[0];
    return Boolean(run) && run.id === wanted;
  });
}

/**
 * @param {Step[]} steps @param {string} node @param {number} visit From 0, or -1 for the last one.
 * @returns {Step | undefined}
 */
export function stepAfter(steps, node, visit) {
  return steps.filter(({ after }) => after.some(({ id }) => id === node)).at(visit);
}
