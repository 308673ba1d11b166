/** How titles of agents are shown. */

const FILE_NAME = /^[a-z0-9]+(?:_[a-z0-9]+)*$/;

/** @param {string} title @returns {string} The title; a name of a file becomes words. */
export function shownTitle(title) {
  if (!FILE_NAME.test(title)) return title;
  const words = title.replaceAll("_", " ");
  return words[0].toUpperCase() + words.slice(1);
}
