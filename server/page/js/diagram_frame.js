/** What runs in `diagram.html`: it draws Mermaid diagrams, in a frame without an origin, a network and a way out. */

/* global mermaid */

/** Options that a diagram cannot set itself: Mermaid's own list, and further down those of its look. */
const SECURE = ["secure", "securityLevel", "startOnLoad", "maxTextSize", "suppressErrorRendering", "maxEdges"];
/** Variables of Mermaid's theme, by the page's colours. @type {Record<string, string>} */
const VARIABLES = {
  paper: "background tertiaryColor edgeLabelBackground pieStrokeColor rowEven",
  shade: "primaryColor clusterBkg noteBkgColor sectionBkgColor rowOdd actorBkg critBkgColor",
  line: "gridColor clusterBorder pieOuterStrokeColor doneTaskBkgColor doneTaskBorderColor",
  ink: "primaryTextColor secondaryTextColor tertiaryTextColor textColor noteTextColor taskTextColor taskTextDarkColor",
  soft: "primaryBorderColor lineColor noteBorderColor",
  chosen: "secondaryColor taskBkgColor taskBorderColor activeTaskBkgColor activationBkgColor",
  "accent-ink": `pieSectionTextColor ${[0, 1, 2, 3, 4, 5].map((at) => `gitBranchLabel${at} cScaleLabel${at}`).join(" ")}`,
  accent: "pie1 git0 cScale0 activeTaskBorderColor todayLineColor",
  running: "pie2 git1 cScale1",
  done: "pie3 git2 cScale2",
  waiting: "pie4 git3 cScale3",
  failed: "pie5 git4 cScale4 critBorderColor",
  stopped: "pie6 git5 cScale5",
};
const SCALE = 14 / 16;
/** The sizes of texts, here and in Mermaid. */
const INK_OF_CHARTS = "title xAxisTitle xAxisLabel xAxisTick xAxisLine yAxisTitle yAxisLabel yAxisTick yAxisLine";

/** @param {string} name @returns {string} A colour of the page as Mermaid reads it. */
function readColour(name) {
  document.body.style.color = `var(--${name})`;
  const parts = getComputedStyle(document.body).color.match(/\d+/g) ?? [];
  return `#${parts.map((part) => Number(part).toString(16).padStart(2, "0")).join("")}`;
}

/** @param {string} names @param {string} colour @returns {Record<string, string>} */
function paint(names, colour) {
  return Object.fromEntries(names.split(" ").map((name) => [name, readColour(colour)]));
}

/** @param {string} theme @returns {Record<string, any>} */
function readLook(theme) {
  document.documentElement.dataset.theme = theme;
  const { fontFamily } = getComputedStyle(document.body);
  const xyChart = {
    ...paint(INK_OF_CHARTS.replace(/\b(?= |$)/g, "Color"), "ink"), backgroundColor: readColour("paper"),
    plotColorPalette: ["accent", "running", "done", "waiting", "failed"].map(readColour).join(),
  };
  const themeVariables = {
    ...Object.assign({}, ...Object.entries(VARIABLES).map(([colour, names]) => paint(names, colour))), xyChart, fontFamily,
    darkMode: theme === "dark", pieOpacity: 1,
  };
  return { theme: "base", themeVariables, themeCSS: "", fontFamily };
}

/** @param {string} text @param {string} theme @returns {Promise<string>} SVG in its own size, as XML. */
async function drawSvg(text, theme) {
  const look = readLook(theme);
  mermaid.initialize({ ...look, look: "classic", sequence: { diagramMarginX: 8, diagramMarginY: 8 }, startOnLoad: false, suppressErrorRendering: true, secure: [...SECURE, ...Object.keys(look)] });
  const { svg } = await mermaid.render("diagram", text);
  const drawn = /** @type {Element} */ (new DOMParser().parseFromString(svg, "text/html").querySelector("svg"));
  const [, , width, height] = drawn.getAttribute("viewBox")?.split(" ") ?? [];
  drawn.removeAttribute("style");
  drawn.setAttribute("width", String(SCALE * Number(width)));
  drawn.setAttribute("height", String(SCALE * Number(height)));
  return new XMLSerializer().serializeToString(drawn);
}

addEventListener("message", ({ data, ports: [port] }) => {
  if (typeof mermaid === "undefined") port.postMessage({ isLost: true });
  else drawSvg(data.text, data.theme).then(
    (svg) => port.postMessage({ svg }),
    (error) => port.postMessage({ problem: String(error?.message ?? error).split("\n")[0].replace(/:$/, "").slice(0, 200) }),
  );
});
