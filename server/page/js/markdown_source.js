/** How Markdown becomes HTML that is not sanitised yet: blocks, formulas, citations, footnotes, foreign pictures. */

import { Marked, Renderer } from "../vendor/marked.js";
import { filePath } from "./files.js";
import { t } from "./texts.js";

const TAGS = new Set(("b blockquote br caption code del div em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span strong sub sup "
  + "table tbody td tfoot th thead tr u ul").split(" "));
const TAG = /<(\/?)([a-z][a-z0-9]*)((?:\s[^<>]*)?)>|[<>]/gi;
const SPAN = /\b(?:col|row)span\s*=\s*["']?\d{1,4}/gi;
export const CITATIONS = /\[ID: ?(\d{1,6})\]|【ID: ?(\d{1,6})】|\(ID: ?(\d{1,6})\)|##(\d{1,6})\$\$/g;
const CITATION = new RegExp(`^(?:${CITATIONS.source})`);
const NOTE = /^ {0,3}\[\^([^\]\s]{1,60})\]:[ \t]*([^\n]*(?:\n(?:[ \t]+[^\n]*|(?=\n[ \t]+\S)))*)(?:\n|$)/;
const DISPLAY = /^ {0,3}(?:\$\$([\s\S]{1,5000}?)\$\$|\\\[([\s\S]{1,5000}?)\\\])[ \t]*(?:\n|$)/;
const FORMULA = new RegExp("^(?:\\$\\$([\\s\\S]{1,5000}?)\\$\\$|\\\\\\[([\\s\\S]{1,5000}?)\\\\\\]|\\\\\\(([\\s\\S]{1,5000}?)\\\\\\)"
  + "|\\$(?![\\s$])([^$\\n`]{0,500}?[^\\s$`\\\\])\\$(?![\\w$]))"); // amounts of money are none: "$5 and $6"

/** @param {string} text @returns {string} */
export function escapeHtml(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

/**
 * Return HTML that stands in Markdown with tags of texts and tables only, and these without attributes.
 *
 * DOMPurify removes the rest as well, but the browser reports an event handler while DOMPurify reads it.
 * @param {string} source @returns {string}
 */
function keepTags(source) {
  return source.replace(TAG, (whole, slash, name, attributes) => {
    if (!name || !TAGS.has(name.toLowerCase())) return whole.replace(/</g, "&lt;").replace(/>/g, "&gt;");
    const kept = name.replace(/^h([1-6])$/i, (/** @type {string} */ _, /** @type {string} */ depth) => heading(Number(depth)));
    return `<${slash}${kept} ${(attributes.match(SPAN) ?? []).map((/** @type {string} */ span) => span.replace(/["']/g, "")).join(" ")}>`;
  });
}

/** @param {number} depth @returns {string} The tag of a heading below those of the page. */
function heading(depth) {
  return `h${Math.min(6, depth + 2)}`;
}

/** @param {string} source @param {boolean} isDisplay @returns {string} A formula as its source, until it is drawn. */
function formula(source, isDisplay) {
  return `<code data-formula="${isDisplay ? "display" : "inline"}">${escapeHtml(source.trim())}</code>`;
}

/** @param {string} address @returns {string} The host of an address of another site, or "". */
function foreignHost(address) {
  try {
    const { host, protocol } = new URL(address, location.href);
    return /^https?:$/.test(protocol) && host !== location.host ? host : "";
  } catch {
    return "";
  }
}

const plain = new Renderer();
const marked = new Marked({ gfm: true, breaks: true, async: false });
marked.use({
  renderer: {
    html: ({ text }) => keepTags(text),
    heading({ tokens, depth }) {
      return `<${heading(depth)}>${this.parser.parseInline(tokens)}</${heading(depth)}>\n`;
    },
    code: ({ text, lang }) =>
      `<pre><code data-language="${escapeHtml(/^\S*/.exec(lang ?? "")?.[0] ?? "")}">${escapeHtml(text)}</code></pre>\n`,
    checkbox: ({ checked }) =>
      `<input type="checkbox" disabled ${checked ? "checked" : ""} aria-label="${escapeHtml(t(checked ? "taskDone" : "taskOpen"))}"> `,
    image(token) {
      const host = filePath(token.href) ? "" : foreignHost(token.href);
      if (!host) return plain.image.call(this, token);
      const label = t("pictureOf", { host }) + (token.text ? `: ${token.text}` : "");
      return `<a href="${escapeHtml(token.href)}" title="${escapeHtml(host)}">${escapeHtml(label)}</a>`;
    },
    link(token) {
      const host = filePath(token.href) ? "" : foreignHost(token.href);
      return plain.link.call(this, { ...token, title: host || token.title });
    },
  },
  extensions: [{
    name: "display",
    level: "block",
    start: (source) => /\n {0,3}(?:\$\$|\\\[)/.exec(source)?.index,
    tokenizer: (source) => {
      const found = DISPLAY.exec(source);
      return found ? { type: "display", raw: found[0], text: found[1] ?? found[2] } : undefined;
    },
    renderer: ({ text }) => `<p>${formula(text, true)}</p>\n`,
  }, {
    name: "note",
    level: "block",
    start: (source) => /\n {0,3}\[\^[^\]\s]+\]:/.exec(source)?.index,
    tokenizer: (source) => {
      const found = NOTE.exec(source);
      return found ? { type: "note", raw: found[0], label: found[1], text: found[2].replace(/^[ \t]+/gm, "") } : undefined;
    },
    renderer: () => "",
  }, {
    name: "formula",
    level: "inline",
    start: (source) => /(?<![\w$\\])\$|\\[([]/.exec(source)?.index,
    tokenizer: (source) => {
      const found = FORMULA.exec(source);
      if (!found) return undefined;
      const [raw, shown, bracketed, parenthesised, short] = found;
      const isAmount = short !== undefined && /^\d/.test(short) && /\s/.test(short) && !/[\\^_=+<>{}]/.test(short);
      if (isAmount) return undefined;
      const isDisplay = shown !== undefined || bracketed !== undefined;
      return { type: "formula", raw, isDisplay, text: shown ?? bracketed ?? parenthesised ?? short };
    },
    renderer: ({ text, isDisplay }) => formula(text, isDisplay),
  }, {
    name: "citation",
    level: "inline",
    start: (source) => /\[ID:|【ID:|\(ID:|##\d/.exec(source)?.index,
    tokenizer: (source) => {
      const found = CITATION.exec(source);
      return found ? { type: "citation", raw: found[0], number: found.slice(1).find(Boolean) } : undefined;
    },
    renderer: ({ raw, number }) => `<sup data-cite="${Number(number)}">${escapeHtml(raw)}</sup>`,
  }, {
    name: "mark",
    level: "inline",
    start: (source) => source.indexOf("[^"),
    tokenizer: (source) => {
      const found = /^\[\^([^\]\s]{1,60})\]/.exec(source);
      return found ? { type: "mark", raw: found[0], label: found[1] } : undefined;
    },
    renderer: ({ raw, label }) => `<sup data-note="${escapeHtml(label)}">${escapeHtml(raw)}</sup>`,
  }],
});

/**
 * @typedef {{raw: string, tokens: any[], links: any}} Block A piece of Markdown that is converted on its own.
 * @param {string} text @returns {{blocks: Block[], notes: Map<string, string>}} `notes` are the footnotes by their labels.
 */
export function readBlocks(text) {
  const all = /** @type {any} */ (marked.lexer(text));
  /** @type {Block[]} */
  const blocks = [];
  const notes = new Map();
  let open = 0; // tags of HTML that a block has opened, and a later one closes
  for (const token of all) {
    if (token.type === "note") notes.set(token.label, token.text);
    const last = blocks.at(-1);
    if (last && (open > 0 || token.type === "space")) {
      last.raw += token.raw;
      last.tokens.push(token);
    } else {
      blocks.push({ raw: token.raw, tokens: [token], links: all.links });
    }
    if (token.type === "html") open = Math.max(0, open + countOpen(token.raw));
  }
  return { blocks, notes };
}

/** @param {string} source @returns {number} */
function countOpen(source) {
  return [...source.matchAll(TAG)].reduce((count, [, slash, name]) =>
    (!name || !TAGS.has(name.toLowerCase()) || /^(br|hr)$/i.test(name) ? count : count + (slash ? -1 : 1)), 0);
}

/** @param {Block} block @returns {string} HTML of a hostile author. */
export function toHtml(block) {
  return String(marked.parser(block.tokens));
}
