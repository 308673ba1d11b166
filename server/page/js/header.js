/** The head of the page: its name, where the reader is, the theme and the menu. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { Menu } from "./menu.js";
import { t } from "./texts.js";
import { chooseTheme, chosenTheme } from "./theme.js";

/** @typedef {import("./theme.js").Theme} Theme */

/** @type {Record<Theme, {icon: string, next: Theme}>} */
const THEMES = {
  system: { icon: "monitor", next: "light" },
  light: { icon: "sun", next: "dark" },
  dark: { icon: "moon", next: "system" },
};

/** Phones, as in page.css. */
const NARROW = matchMedia("(max-width: 700px)");

/**
 * @param {{title: string, layout: import("./layout.js").Layout | null, isSignedIn: boolean, onSettings: () => void,
 *   onLanguage: () => void, onSignOut: () => void}} props `title`: of what is open, if not the list; `layout`: if it has parts.
 */
export function Header({ title, layout, isSignedIn, onSettings, onLanguage, onSignOut }) {
  const isNarrow = useNarrow();
  const theme = useTheme();
  const settings = { label: t("settings"), icon: "settings", onSelect: onSettings };
  const buttons = isSignedIn ? [theme, settings] : [theme];
  const items = [...(isNarrow ? buttons : []), { label: t("language"), icon: "languages", onSelect: onLanguage }];
  if (isSignedIn) items.push({ label: t("signOut"), icon: "log-out", onSelect: onSignOut });
  return html`<header class="top">
    ${layout && html`<${PartSwitch} part="list" icon="menu" layout=${layout} />`}
    <a class="brand" href="#/" aria-label="ragflow-lg"><img src="page/icon.svg" alt="" width="24" height="24" /><span>ragflow-lg</span></a>
    ${title && html`<nav class="crumbs" aria-label=${t("place")}><a href="#/">${t("agents")}</a><span aria-hidden="true">/</span>
      <b title=${title} aria-current="page">${title}</b></nav>`}
    <span class="space"></span>
    ${layout && html`<${PartSwitch} part="panel" icon="panel-right" layout=${layout} />`}
    ${!isNarrow && buttons.map((each) => html`<${HeadButton} ...${each} />`)}
    <${Menu} label=${t("menu")} items=${items} />
  </header>`;
}

/** @param {{part: import("./layout.js").Part, icon: string, layout: import("./layout.js").Layout}} props */
function PartSwitch({ part, icon, layout }) {
  const label = t(part === "list" ? "sessions" : "runPanel");
  return html`<button type="button" class="icon-button" data-part=${part} aria-label=${label} title=${label}
    aria-expanded=${layout.isShown(part)} onClick=${() => layout.toggle(part)}><${Icon} name=${icon} /></button>`;
}

/** @param {{label: string, icon: string, onSelect: () => void}} props */
function HeadButton({ label, icon, onSelect }) {
  return html`<button type="button" class="icon-button" aria-label=${label} title=${label} onClick=${onSelect}><${Icon} name=${icon} /></button>`;
}

/** @returns {boolean} Whether the screen is a phone's, where the head has no room for rare buttons. */
function useNarrow() {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  return isNarrow;
}

/** Return how the theme is shown, and how to go on to the next one. */
function useTheme() {
  const [theme, setTheme] = useState(chosenTheme);
  const onSelect = () => {
    chooseTheme(THEMES[theme].next);
    setTheme(THEMES[theme].next);
  };
  return { label: `${t("theme")}: ${t(`theme-${theme}`)}`, icon: THEMES[theme].icon, onSelect };
}

/** A button that goes on to the next theme. */
export function ThemeSwitch() {
  return html`<${HeadButton} ...${useTheme()} />`;
}
