/** The texts of the page's frame and of the list of agents, in English and Chinese. */

/** @type {Record<string, [string, string]>} */
export const FRAME_TEXTS = {
  theme: ["Theme", "主题"],
  "theme-system": ["as the system", "跟随系统"],
  "theme-light": ["light", "浅色"],
  "theme-dark": ["dark", "深色"],
  menu: ["Menu", "菜单"],
  place: ["Place", "位置"],
  runPanel: ["Run and graph", "运行与流程图"],
  divider: ["Width of the panel", "面板宽度"],
  dividerHint: ["Drag; double-click resets", "拖动调整，双击恢复"],
  enlarge: ["Whole width", "全宽显示"],
  reduce: ["Beside the conversation", "与对话并排"],
};
