/** Which runs have played the steps of a turn. */

/**
 * Return the run that has played the steps of a run: a fork at the end of a turn is a copy; no run if it is not known.
 * @param {any} run @param {any[]} runs @returns {string}
 */
export function playerOf(run, runs) {
  if (!isCopy(run)) return run.id;
  if (run.status === "interrupted") return "";
  const parent = runs.find(({ id }) => id === run.parent_run_id);
  return parent ? playerOf(parent, runs) : run.parent_run_id;
}

/**
 * Return the runs before a run in its turn: those that have asked its forms.
 * @param {string} id @param {any[]} runs @returns {any[]}
 */
export function formRunsOf(id, runs) {
  const find = (/** @type {string} */ wanted) => runs.find((run) => run.id === wanted);
  const asked = find(find(id)?.parent_run_id);
  const player = asked?.status === "answered" && find(playerOf(asked, runs));
  return player ? [...formRunsOf(player.id, runs), player] : [];
}

/** @param {any} run @returns {boolean} */
export function isCopy(run) {
  return Boolean(run?.parent_run_id) && run.start_ms === run.end_ms;
}
