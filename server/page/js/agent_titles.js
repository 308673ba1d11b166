/** How titles of agents are shown. */

import { language } from "./texts.js";

const FILE_NAME = /^[a-z0-9]+(?:_[a-z0-9]+)*$/;

/** @param {string} title @returns {string} The title; a name of a file becomes words. */
export function shownTitle(title) {
  if (!FILE_NAME.test(title)) return title;
  const words = title.replaceAll("_", " ");
  return words[0].toUpperCase() + words.slice(1);
}

/** @typedef {{title: string, description?: string, translations?: Record<string, {title: string, description: string}>}} About */

/** @param {About} agent @returns {{title: string, description: string}} What it is called in the language that is chosen. */
export function shownTexts(agent) {
  const own = agent.translations?.[language()];
  return { title: own?.title || shownTitle(agent.title), description: own?.description || agent.description || "" };
}
