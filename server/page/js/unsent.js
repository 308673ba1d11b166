/** What readers have written and not sent, in boxes and forms: it outlives the views, and belongs to the reader's key. */

/** By conversation, or by the form's id. @type {Map<string, any>} */
let unsent = new Map();

/** @returns {Map<string, any>} */
export function readUnsent() {
  return unsent;
}

/** Forget everything; what still writes into it, writes into nothing. */
export function forgetUnsent() {
  unsent = new Map();
}

/**
 * Let the box of another conversation have what is written, after what is written there.
 * @param {string} from @param {string} to
 */
export function moveUnsent(from, to) {
  const [moved, there] = [unsent.get(from), unsent.get(to)];
  unsent.delete(from);
  const text = [there?.text, moved?.text].filter(Boolean).join("\n");
  unsent.set(to, { text, files: [...there?.files ?? [], ...moved?.files ?? []] });
}
