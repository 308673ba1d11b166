/** The texts of the page's frame and of the list of agents, in English and Chinese. */

/** @type {Record<string, [string, string]>} */
export const FRAME_TEXTS = {
  theme: ["Theme", "主题"],
  "theme-system": ["as the system", "跟随系统"],
  "theme-light": ["light", "浅色"],
  "theme-dark": ["dark", "深色"],
  menu: ["Menu", "菜单"],
  place: ["Place", "位置"],
  divider: ["Width of the panel", "面板宽度"],
  dividerHint: ["Drag; double-click resets", "拖动调整，双击恢复"],
  enlarge: ["Whole width", "全宽显示"],
  addAgent: ["Add an agent", "添加智能体"],
  dropExport: ["Drop a canvas that RAGFlow exported", "将 RAGFlow 导出的画布拖到此处"],
  ownAgents: ["Yours", "我的智能体"],
  exampleAgents: ["Examples", "示例"],
  "kind-chat": ["Chat", "对话"],
  "kind-form": ["Form", "表单"],
  "kind-task": ["Task", "任务"],
  "kind-webhook": ["Webhook", "Webhook"],
  "kind-schedule": ["Schedule", "定时"],
  oneTalk: ["conversation", "个会话"],
  talks: ["conversations", "个会话"],
  offline: ["The server cannot be reached. Trying again …", "无法连接服务器，正在重试……"],
  reduce: ["Beside the conversation", "与对话并排"],
};
