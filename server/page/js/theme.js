/** The theme that is chosen: the system's, light or dark. The page loads this module before it paints anything. */

const STORED = "ragflow-lg-theme";
const CHANGED = "themechange";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** @typedef {"system"|"light"|"dark"} Theme */

/** @returns {Theme} What the reader has chosen. A frame in another site may have no storage. */
export function chosenTheme() {
  try {
    const stored = localStorage.getItem(STORED);
    return stored === "light" || stored === "dark" ? stored : "system";
  } catch {
    return "system";
  }
}

/** @returns {"dark"|"light"} The theme that is shown. */
export function readTheme() {
  const shown = document.documentElement.dataset.theme;
  return shown === "dark" || shown === "light" ? shown : dark.matches ? "dark" : "light";
}

/** @param {Theme} theme */
function show(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** Choose a theme, and keep the choice in the browser. @param {Theme} theme */
export function chooseTheme(theme) {
  localStorage.setItem(STORED, theme);
  show(theme);
  dark.dispatchEvent(new Event(CHANGED));
}

/** Call a function whenever another theme may be shown. @param {() => void} onChange @returns {() => void} How to end it. */
export function watchTheme(onChange) {
  dark.addEventListener("change", onChange);
  dark.addEventListener(CHANGED, onChange);
  return () => {
    dark.removeEventListener("change", onChange);
    dark.removeEventListener(CHANGED, onChange);
  };
}

if (chosenTheme() !== "system") show(chosenTheme());
