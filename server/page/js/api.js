/** The server's APIs. The key is in memory and in the session storage, and goes into headers only. */

import { loadMeanings, meaningOf, t } from "./texts.js";

const KEY = "ragflow-lg-key";
const VISITOR = "ragflow-lg-visitor";
const VISITOR_HEADER = "X-RAGFlow-Visitor";

/** An answer that is not a success. */
export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {any} [details] */
  constructor(status, code, message, details) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

/**
 * Return the stored key, or the one in the fragment of the address, which is then removed from the address. A link may
 * come from anybody: it replaces another key only if the reader agrees, who would else type into a foreign tenant.
 */
export function readKey() {
  const given = new URLSearchParams(location.hash.slice(1));
  const key = given.get("key");
  if (key) {
    const stored = sessionStorage.getItem(KEY);
    const agent = given.get("agent");
    history.replaceState(null, "", location.pathname + location.search + (agent ? `#/${agent}` : ""));
    // eslint-disable-next-line no-alert -- nothing is drawn yet, and nothing may be before the reader has decided
    if (!stored || stored === key || confirm(t("replaceKey"))) storeKey(key);
  }
  return sessionStorage.getItem(KEY) || "";
}

/** @param {string} key The key, or an empty text to forget it. */
export function storeKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

/** @param {string} name @returns {string} What this tab keeps; "" where a browser keeps nothing for frames of other sites. */
export function readKept(name) {
  try {
    return sessionStorage.getItem(name) || "";
  } catch {
    return "";
  }
}

/** @param {string} name @param {string} value An empty text to forget it. */
export function keep(name, value) {
  try {
    if (value) sessionStorage.setItem(name, value);
    else sessionStorage.removeItem(name);
  } catch {
    // then it is known until the page is closed
  }
}

/**
 * @param {string} key The key of an embedded page, for which the server signs the secrets.
 * @returns {string} The secret of the page's visitor, or "" at the first contact.
 */
export function readVisitor(key) {
  return readKept(`${VISITOR} ${key}`);
}

/** Requests with a key. */
export class Api {
  /**
   * @param {string} key
   * @param {string} [base] What paths are relative to, if not to the page.
   * @param {() => void} [onRefused] Is called when the server does not accept the key.
   */
  constructor(key, base = "", onRefused = () => undefined) {
    this.key = key;
    this.base = base;
    this.onRefused = onRefused;
    /** The secret of an embedded page's visitor, once the server has made it. */
    this.visitor = "";
    /** @type {(isReached: boolean) => void} Is told after each request whether the server could be reached. */
    this.onReach = () => undefined;
  }

  /**
   * Send a request and return its JSON.
   * @param {string} path @param {{method?: string, body?: any, text?: string, signal?: AbortSignal}} [options]
   * @returns {Promise<any>}
   */
  async request(path, options = {}) {
    const response = await this.open(path, options);
    return response.status === 204 ? null : response.json();
  }

  /**
   * Send a request and return its response.
   * @param {string} path
   * @param {{method?: string, body?: any, text?: string, form?: FormData | Blob, signal?: AbortSignal, headers?: any}} [options]
   * @returns {Promise<Response>}
   */
  async open(path, { method, body, text, form, signal, headers } = {}) {
    const sent = text ?? (body === undefined ? undefined : JSON.stringify(body));
    let response;
    try {
      response = await fetch(this.base + path, {
        method: method ?? (sent === undefined && !form ? "GET" : "POST"),
        headers: {
          ...(this.key ? { Authorization: `Bearer ${this.key}` } : {}),
          "X-RAGFlow-Compat": "0.27", // whatever the server's other clients are written for
          ...(this.visitor ? { [VISITOR_HEADER]: this.visitor } : {}),
          ...(sent === undefined ? {} : { "Content-Type": "application/json" }),
          ...headers,
        },
        body: form ?? sent,
        signal,
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      this.onReach(false);
      throw new ApiError(0, "unreachable", t("unreached"));
    }
    this.onReach(true);
    if (response.status === 401) this.onRefused();
    if (!response.ok) throw await readProblem(response);
    const visitor = response.headers.get(VISITOR_HEADER);
    if (visitor) {
      this.visitor = visitor;
      keep(`${VISITOR} ${this.key}`, visitor);
    }
    return response;
  }

  /**
   * Send a request to a route of RAGFlow's API and return its data.
   * @param {string} path @param {{method?: string, body?: any, form?: FormData}} [options]
   * @returns {Promise<any>}
   */
  async ragflow(path, options = {}) {
    const answer = await (await this.open(`api/v1/${path}`, options)).json();
    if (answer.code !== 0) throw await tell(400, String(answer.code), answer.message);
    return answer.data;
  }

  /** @returns {Promise<any[]>} All agents, the last changed ones first. */
  async agents() {
    /** @type {any[]} */
    const rows = [];
    for (let page = 1; page <= 100; page++) {
      const part = await this.request(`native/v1/agents?page=${page}&page_size=100`);
      rows.push(...part.agents);
      if (rows.length >= part.total || !part.agents.length) break;
    }
    return rows;
  }

  /** @param {string} agent @param {string} rest @returns {string} A path of the native API. */
  path(agent, rest) {
    return `native/v1/agents/${encodeURIComponent(agent)}/${rest}`;
  }

  /**
   * Store what the reader thinks of an answer.
   * @param {string} agent @param {string} runId @param {import("./answer_tools.js").Feedback} feedback
   */
  rate(agent, runId, feedback) {
    return this.request(this.path(agent, `runs/${runId}/feedback`), { method: "PUT", body: feedback });
  }

  /**
   * Read the frames of a stream of server-sent events.
   * @param {string} path
   * @param {{method?: string, body?: any, signal?: AbortSignal, headers?: any}} options
   * @returns {AsyncGenerator<{id: string, event: string, data: any}>}
   */
  async *frames(path, options) {
    const response = await this.open(path, options);
    if (response.status === 204) return;
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) throw await readProblem(response);
    if (!response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop() ?? "";
        for (const part of parts) {
          const frame = parseFrame(part);
          if (frame) yield frame;
        }
      }
    } finally {
      reader.cancel().catch(() => undefined);
    }
  }
}

/** @param {string} text @returns {{id: string, event: string, data: any} | null} */
function parseFrame(text) {
  const frame = { id: "", event: "", data: "" };
  for (const line of text.split("\n")) {
    const at = line.indexOf(":");
    if (at < 1) continue;
    const name = line.slice(0, at);
    const value = line.slice(line[at + 1] === " " ? at + 2 : at + 1);
    if (name === "data") frame.data += value;
    else if (name === "id" || name === "event") frame[name] = value;
  }
  return frame.data && frame.data !== "[DONE]" ? { ...frame, data: JSON.parse(frame.data) } : null;
}

/** @param {Response} response @returns {Promise<ApiError>} */
async function readProblem(response) {
  try {
    const body = await response.json();
    const error = body.error && typeof body.error === "object" ? body.error : body;
    return tell(response.status, String(error.code ?? ""), error.message || response.statusText, error.details);
  } catch {
    return new ApiError(response.status, "", t("answeredWith", { status: response.status }));
  }
}

/**
 * @param {number} status @param {string} code @param {string} message @param {any} [details]
 * @returns {Promise<ApiError>} Its message has in 中文 what the code means in the first line, then the server's own words.
 */
async function tell(status, code, message, details) {
  await loadMeanings();
  return new ApiError(status, code, [meaningOf("problems", code), message].filter(Boolean).join("\n"), details);
}
