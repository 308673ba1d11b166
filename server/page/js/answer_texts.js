/** The texts of answers, in English and Chinese. */

/** @type {Record<string, [string, string]>} */
export const ANSWER_TEXTS = {
  sources: ["Sources", "来源"],
  pageNumber: ["p. {page}", "第 {page} 页"],
  lineNumbers: ["lines {from}–{to}", "第 {from}–{to} 行"],
  table: ["Table", "表格"],
  code: ["Code", "代码"],
  mermaid: ["Mermaid diagram", "Mermaid 图"],
  draw: ["Draw", "绘图"],
  diagramSource: ["Source", "源码"],
  isDrawing: ["Drawing …", "正在绘图…"],
  notDrawn: ["It cannot be drawn: {problem}", "无法绘图：{problem}"],
  drawnWithout: ["its library could not be loaded", "绘图库无法加载"],
  drawnTooLong: ["it takes too long", "耗时过长"],
  taskDone: ["Done", "已完成"],
  taskOpen: ["To do", "待办"],
  notes: ["Notes", "注释"],
  note: ["Note", "注释"],
  pictureOf: ["Picture of {host}, not loaded", "{host} 的图片，未加载"],
};
