/** The look of an embedded chat, from its frame's address: `theme` (light or dark) and `accent` (a colour as #1f6feb). */

const HEX = /^#[0-9a-fA-F]{6}$/;
const READABLE = 4.5;
const STEP = 0.04;
/** The grounds on which texts in the accent stand: those of `--shade` in tokens.css, and what texts are mixed with. */
const GROUNDS = { light: ["#f6f7f9", "#000000"], dark: ["#1d2026", "#ffffff"] };

/**
 * Return a value of the address. A browser sends nothing that follows its `#`.
 * @param {string} name @returns {string}
 */
export function readOption(name) {
  return new URLSearchParams(location.hash.slice(1)).get(name) ?? new URLSearchParams(location.search).get(name) ?? "";
}

/** @param {string} colour @returns {number[]} */
function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

/** @param {string} colour @returns {number} The relative luminance of WCAG. */
function luminance(colour) {
  const linear = (/** @type {number} */ value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = channels(colour).map((value) => linear(value / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @param {string} one @param {string} other @returns {number} */
function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((first, second) => first - second);
  return (light + 0.05) / (dark + 0.05);
}

/** @param {string} accent @param {string[]} ground @returns {string} The accent, or as much of it as can be read there. */
function readable(accent, [ground, end]) {
  let colour = accent;
  for (let share = STEP; contrast(colour, ground) < READABLE; share += STEP) {
    const far = channels(end);
    const mixed = channels(accent).map((value, at) => Math.round(value + (far[at] - value) * Math.min(1, share)));
    colour = `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
  }
  return colour;
}

const { style, dataset } = document.documentElement;
const theme = readOption("theme");
if (theme === "light" || theme === "dark") dataset.theme = theme;
const accent = readOption("accent");
if (HEX.test(accent)) {
  style.setProperty("--fill", accent);
  style.setProperty("--accent-ink", contrast(accent, "#ffffff") >= contrast(accent, "#000000") ? "#ffffff" : "#000000");
  style.setProperty("--accent", `light-dark(${readable(accent, GROUNDS.light)}, ${readable(accent, GROUNDS.dark)})`);
  style.setProperty("--chosen", "color-mix(in srgb, var(--accent) 14%, var(--paper))");
}
