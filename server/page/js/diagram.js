/** Mermaid diagrams. Their sources are hostile, and their library is large: a frame of their own draws one, as a picture. */

const MAX_MS = 20_000;

/**
 * Draw a diagram. An error says what is wrong with it, or nothing if that takes too long.
 * @param {string} text @param {"dark" | "light"} theme
 * @returns {Promise<string>} The address of a picture, in which nothing can run or be loaded.
 */
export async function drawDiagram(text, theme) {
  const frame = document.createElement("iframe");
  const { port1, port2 } = new MessageChannel();
  /** @type {Promise<string>} */
  const drawn = new Promise((resolve, reject) => {
    port1.onmessage = ({ data }) => (data.svg ? resolve(data.svg) : reject(new Error(data.problem)));
    setTimeout(reject, MAX_MS, new Error());
  });
  frame.setAttribute("sandbox", "allow-scripts"); // it has no origin, and so nothing of this page
  frame.className = "diagram-frame";
  frame.ariaHidden = "true";
  frame.tabIndex = -1;
  frame.onload = () => frame.contentWindow?.postMessage({ text, theme }, "*", [port2]);
  frame.src = new URL("../diagram.html", import.meta.url).href;
  document.body.append(frame);
  try {
    return `data:image/svg+xml,${encodeURIComponent(await drawn)}`;
  } finally {
    frame.remove();
  }
}
