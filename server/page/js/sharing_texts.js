/** The texts about ratings of answers and links to conversations, in English and Chinese. */

/** @type {Record<string, [string, string]>} */
export const SHARING_TEXTS = {
  "rate-up": ["Good answer", "回答得好"],
  "rate-down": ["Bad answer", "回答得不好"],
  "note-up": ["What was good? (optional)", "哪里好？（可选）"],
  "note-down": ["What was wrong? (optional)", "哪里有问题？（可选）"],
  sendNote: ["Send note", "发送备注"],
  noNote: ["No note", "不写备注"],
  rated: ["Rated", "评价"],
  share: ["Share …", "分享……"],
  shareTalk: ["Share this conversation", "分享此会话"],
  shareWho: [
    "Anyone who has the link can read the questions, the answers and the names of the sources, also those that follow.",
    "任何拥有链接的人都可以阅读问题、回答和来源名称，包括之后的内容。",
  ],
  shareNot: [
    "Nobody sees thinking, tool calls, values, answers to forms or files with it, and nobody can write.",
    "通过链接看不到思考过程、工具调用、变量、表单内容和文件，也无法发送消息。",
  ],
  shareOnce: ["Copy the link now: it is not shown again.", "请立即复制链接：之后不会再显示。"],
  shareHere: [
    "It opens on this computer only: for others, open this page at an address that they can reach.",
    "该链接只能在本机打开：如需分享，请用他人可访问的地址打开此页面。",
  ],
  shareThere: ["There is a link. A new one replaces it.", "已有一个链接，新链接会替换它。"],
  shareRevoked: ["The link does not work any more.", "链接已失效。"],
  createLink: ["Create link", "创建链接"],
  newLink: ["Create a new link", "创建新链接"],
  copyLink: ["Copy link", "复制链接"],
  revokeLink: ["Revoke link", "撤销链接"],
  link: ["Link", "链接"],
  sharedTalk: ["A conversation with {agent}, read only", "与 {agent} 的会话（只读）"],
  sharedGone: ["This link does not work", "此链接无效"],
  sharedGoneHint: [
    "It has been revoked or replaced, or the conversation has been deleted. Ask the person who sent it for another one.",
    "链接已被撤销或替换，或者会话已被删除。请向发送者索取新链接。",
  ],
  formAnswered: ["Form answered", "已填写表单"],
  sharedEmpty: ["Nothing has been said yet.", "还没有任何消息。"],
};
