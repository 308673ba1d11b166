/** The texts of the page, in English and Chinese. */

import { ANSWER_TEXTS } from "./answer_texts.js";
import { FRAME_TEXTS } from "./frame_texts.js";
import { INSPECTION_TEXTS } from "./inspection_texts.js";
import { NEEDS_TEXTS } from "./needs_texts.js";
import { SHARING_TEXTS } from "./sharing_texts.js";
import { TALK_TEXTS } from "./talk_texts.js";

/** @type {Record<string, [string, string]>} */
const TEXTS = {
  ...ANSWER_TEXTS,
  ...FRAME_TEXTS,
  ...INSPECTION_TEXTS,
  follow: ["Follow", "跟随"],
  loading: ["Loading …", "加载中…"],
  nodeActions: ["What to do with this node", "节点操作"],
  ...NEEDS_TEXTS,
  ...SHARING_TEXTS,
  ...TALK_TEXTS,
  agents: ["Agents", "智能体"],
  add: ["Add a canvas", "添加画布"],
  addHint: ["Drop a canvas of RAGFlow anywhere on this page.", "将 RAGFlow 画布文件拖到此页面的任意位置。"],
  demoLabel: ["demo", "演示"],
  key: ["API key", "API 密钥"],
  keyHint: ["The server's first start shows an API key, or writes it to the file first-api-key. To create one: "
    + "`ragflow-lg keys create NAME`", "服务器首次启动时会显示 API 密钥，或写入文件 first-api-key。创建密钥：`ragflow-lg keys create NAME`"],
  signIn: ["Sign in", "登录"],
  replaceKey: [
    "This link has another key than yours. Sign in with it? Its owner can read what you do here then.",
    "此链接带有另一个密钥。要用它登录吗？登录后，密钥的所有者可以看到您在此处的操作。",
  ],
  signOut: ["Sign out", "退出"],
  refused: ["The server does not accept this key.", "服务器不接受该密钥。"],
  newSession: ["New conversation", "新会话"],
  sessions: ["Conversations", "会话"],
  search: ["Search", "搜索"],
  conversation: ["Conversation", "对话"],
  searchSessions: ["Search conversations", "搜索会话"],
  nothingFound: ["Nothing was found.", "没有找到结果。"],
  start: ["Start", "开始"],
  edit: ["Edit", "编辑"],
  resend: ["Send again", "重新发送"],
  retry: ["Retry", "重试"],
  spoken: ["Spoken answer", "语音回答"],
  fromStart: ["From the start", "从头播放"],
  exportMarkdown: ["Export as Markdown", "导出 Markdown"],
  exportJson: ["Export as JSON", "导出 JSON"],
  user: ["User", "用户"],
  assistant: ["Assistant", "助手"],
  send: ["Send", "发送"],
  stop: ["Stop", "停止"],
  ask: ["Your message", "输入消息"],
  answerFirst: ["Answer the form above", "请先填写上方的表单"],
  attach: ["Attach files", "添加附件"],
  thinking: ["Thinking", "思考过程"],
  calls: ["Tool calls", "工具调用"],
  continue: ["Continue", "继续"],
  answer: ["Answer", "提交"],
  expiresAnswered: ["Without an answer, the values of its fields are used {time}.", "若无人作答，{time}将使用表单的默认值。"],
  expiresCancelled: ["Without an answer, the turn is cancelled {time}.", "若无人作答，{time}将取消本轮。"],
  late: ["Your answer came too late: {answer}", "您的回答来得太晚：{answer}"],
  formFirst: ["This was not sent, because the conversation waits for a form: {answer}", "会话正在等待表单，以下内容未发送：{answer}"],
  expired: ["The time for an answer has passed.", "作答时间已过。"],
  graph: ["Graph", "流程图"],
  use: ["Use it from programs", "调用方式"],
  embeddedChat: ["Chat in a page of yours", "嵌入网页的对话"],
  embeddedHint: ["Everybody who opens that page can read its key, which opens this agent only, for 90 days. Name the origin "
    + "of that page, such as `https://shop.example` or `http://127.0.0.1:8000`, in `[server] frame_origins` of the settings.", "打开网页的人都能看到其中的密钥；它只能使用此智能体，有效期 90 天。"
    + "请在设置的 `[server] frame_origins` 中填写网页的来源（不含路径），例如 `https://shop.example` 或 `http://127.0.0.1:8000`。"],
  embeddedLook: ["`accent` is your colour, with `%23` for `#`; `theme` is `light` or `dark`. Without them, the chat has this page's "
    + "colour, and the visitor's theme.", "`accent` 是您的颜色，`%23` 代表 `#`；`theme` 为 `light` 或 `dark`。省略时使用本页面的颜色和访客的主题。"],
  createPageKey: ["Fill in a new key", "填入新密钥"],
  showKey: ["Fill in the key of this page", "填入当前页面的密钥"],
  pageKeyMissing: ["The address lacks the key of the page: …?auth=beta-….", "地址缺少页面密钥：…?auth=beta-…。"],
  fit: ["Fit", "适应窗口"],
  zoomIn: ["Zoom in", "放大"],
  graphTools: ["Tools of the graph", "流程图工具"],
  zoomOut: ["Zoom out", "缩小"],
  searchNode: ["Search for a node", "搜索节点"],
  graphKeys: ["Graph: arrows move, + and − zoom, 0 shows everything", "流程图：方向键移动，+ 和 − 缩放，0 显示全部"],
  round: ["round {number}", "第 {number} 轮"],
  skipped: ["not run", "未运行"],
  modelRound: ["Round {number}", "第 {number} 轮"],
  events: ["Download the events (JSON Lines)", "下载事件 (JSON Lines)"],
  eventsGone: ["The server no longer has the events of this run.", "服务器已不再保存此次运行的事件。"],
  runFile: ["Download the run file (HTML)", "下载运行文件 (HTML)"],
  cutRows: ["more rows are in the downloaded events.", "行见下载的事件文件。"],
  step: ["Step", "步骤"],
  turn: ["Turn", "轮次"],
  turnOf: ["Turn {number} · {question}", "第 {number} 轮 · {question}"],
  stepsLeftOut: ["older steps are not in this file.", "个较早的步骤不在此文件中。"],
  valuesCut: ["long values are cut.", "个较长的值已截断。"],
  removed: ["Secrets are replaced by ***.", "密钥已替换为 ***。"],
  findings: ["Findings", "检查结果"],
  canRun: ["It can run.", "可以运行。"],
  cannotRun: ["It cannot run.", "无法运行。"],
  create: ["Add the agent", "添加智能体"],
  title: ["Title", "标题"],
  cancel: ["Cancel", "取消"],
  close: ["Close", "关闭"],
  download: ["Download", "下载"],
  inputs: ["Inputs", "输入"],
  outputs: ["Outputs", "输出"],
  error: ["Error", "错误"],
  rerun: ["Run again from here", "从此处重新运行"],
  fork: ["Fork here", "从此处分支"],
  notRun: ["It has not run in this turn.", "本轮未运行。"],
  source: ["Source", "来源"],
  interrupted: ["interrupted", "已中断"],
  reconnecting: ["The server cannot be reached. Trying again …", "无法连接服务器，正在重试……"],
  running: ["running", "运行中"],
  done: ["done", "完成"],
  failed: ["failed", "失败"],
  waiting: ["waiting", "等待中"],
  succeeded: ["succeeded", "成功"],
  cancelled: ["cancelled", "已取消"],
  starting: ["starting", "启动中"],
  language: ["中文", "English"],
  seconds: ["s", "秒"],
  tokens: ["tokens", "词元"],
  copied: ["Copied", "已复制"],
  copy: ["Copy", "复制"],
  reference: ["API reference", "API 文档"],
};
const STORED = "ragflow-lg-language";

/** @returns {string} The chosen language. A frame in another site may have no storage. */
function readChosen() {
  try {
    return localStorage.getItem(STORED) ?? "";
  } catch {
    return "";
  }
}

const asked = new URLSearchParams(location.search).get("locale") ?? navigator.language; // as in RAGFlow's frames
let chosen = readChosen() || (asked.startsWith("zh") ? "zh" : "en");
document.documentElement.lang = chosen;

/** @returns {string} The language that is chosen. */
export function language() {
  return chosen;
}

/**
 * @param {string} name @param {Record<string, string | number>} [values] What stands for `{…}` in the text.
 * @returns {string} The text in the language that is chosen.
 */
export function t(name, values) {
  const text = TEXTS[name]?.[chosen === "zh" ? 1 : 0] ?? name;
  return values ? text.replace(/\{(\w+)\}/g, (_, key) => String(values[key])) : text;
}

/** @type {Record<string, Record<string, string>>} What the server's codes mean in 中文. */
let meanings = {};

/** Load what the server's codes mean, if the page is in 中文. Without it, the server's own words are shown. */
export async function loadMeanings() {
  if (chosen !== "zh") return;
  const help = import("./help_texts.js").then((loaded) => loaded.HELP_TEXTS, () => meanings.help);
  const others = import("./server_texts.js").then((loaded) => loaded.SERVER_TEXTS, () => meanings);
  meanings = { ...await others, help: await help };
}

/**
 * @param {"findings" | "problems" | "failures" | "checks" | "needs" | "parameters" | "help"} kind
 * @param {string} code A code, name or sentence of the server.
 * @returns {string} What it means; "" in English, in which the server says it itself.
 */
export function meaningOf(kind, code) {
  const known = meanings[kind];
  return chosen === "zh" && known && Object.hasOwn(known, code) ? known[code] : "";
}

/** Choose the other language. */
export function switchLanguage() {
  chosen = chosen === "zh" ? "en" : "zh";
  localStorage.setItem(STORED, chosen);
  document.documentElement.lang = chosen;
}
