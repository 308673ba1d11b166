/** The texts of answers, in English and Chinese. */

/** @type {Record<string, [string, string]>} */
export const ANSWER_TEXTS = {
  sources: ["Sources", "来源"],
  page: ["page", "页"],
  table: ["Table", "表格"],
  code: ["Code", "代码"],
  mermaid: ["Mermaid diagram", "Mermaid 图"],
  taskDone: ["Done", "已完成"],
  taskOpen: ["To do", "待办"],
  notes: ["Notes", "注释"],
  note: ["Note", "注释"],
  pictureOf: ["Picture of {host}, not loaded", "{host} 的图片，未加载"],
};
