/** Values as people read and write them: texts as they are, everything else as JSON. No DOM, no requests. */

/** @param {any} value @returns {string} */
export function toText(value) {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

/**
 * Return the value that a text stands for, if the value before was `before`: a text stays a text.
 * @param {string} text @param {any} before @returns {any}
 */
export function fromText(text, before) {
  if (typeof before === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** @param {any} one @param {any} other @returns {boolean} */
export function isSame(one, other) {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

/** @param {{prompt_tokens: number, completion_tokens: number} | null | undefined} usage @returns {number} */
export function countTokens(usage) {
  return usage ? usage.prompt_tokens + usage.completion_tokens : 0;
}

/** @param {number} seconds @returns {string} */
export function showSeconds(seconds) {
  return seconds < 10 ? seconds.toFixed(2) : seconds.toFixed(1);
}

/** @param {number} cost @returns {string} A sum of money; small ones with enough digits to tell them apart. */
export function showCost(cost) {
  return cost < 0.01 ? cost.toPrecision(2) : cost.toFixed(2);
}
