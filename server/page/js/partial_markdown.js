/** Markdown that is still being written: its last block, so that it looks as it will when it is complete. */

const COMPLETE = new RegExp([
  "(`+)(?!`)[\\s\\S]*?[^`]\\1(?!`)", "\\$\\$[\\s\\S]+?\\$\\$", "\\\\\\([\\s\\S]+?\\\\\\)", "\\\\\\[[\\s\\S]+?\\\\\\]",
  "\\$(?!\\s)[^$\\n`]*?[^\\s$]\\$(?!\\w)", "\\\\[^(\\[]", "(`+|\\$\\$|\\\\\\(|\\\\\\[|\\$(?=[^\\s\\d$]))",
].join("|"), "g");
const MAX_FORMULA = 2000;
const MAX_SHORT = 120;

/** @param {string} source The last block. @returns {string} */
export function settle(source) {
  if (/^ {0,3}(```|~~~)/.test(source)) return source;
  if (/^ {0,3}\|[^\n]*(\n[|:\- \t]*)?$/.test(source)) return ""; // the head of a table
  let text = source.replace(/(^|\n)[ \t]*([-=*+#]+|\d{1,3}[.)]?|`{1,2})[ \t]*$/, "");
  let spans = "";
  for (const match of text.matchAll(COMPLETE)) {
    const open = match[2];
    if (!open) continue;
    const rest = text.slice(match.index);
    if (open.startsWith("`")) {
      spans = rest.length > open.length ? open : "";
      text = spans ? text : text.slice(0, match.index);
    } else if (open === "$" ? rest.length < MAX_SHORT && !rest.includes("\n") : rest.length < MAX_FORMULA) {
      text = text.slice(0, match.index);
    }
    break;
  }
  if (spans) return text + spans;
  text = text.replace(/\\$/, "")
    .replace(/!\[[^\]\n]*\]\([^)\n]*$/, "").replace(/\[([^\]\n]*)\]\([^)\n]*$/, "$1")
    .replace(/!?\[[^\]\n]{0,80}$/, "").replace(/##\d*\$?$/, "").replace(/<[a-z/][^<>\n]{0,40}$/i, "");
  return closeBold(text);
}

/** @param {string} text @returns {string} */
function closeBold(text) {
  const isOpen = (text.replace(/(`+)[\s\S]*?\1/g, "").split("**").length - 1) % 2 === 1;
  if (!isOpen) return text;
  const bare = text.replace(/\*?\s*$/, "");
  return bare.endsWith("*") ? bare.replace(/\**$/, "") : `${bare}**`;
}
