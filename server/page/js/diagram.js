/** Mermaid diagrams. Their sources are hostile, and their library is large: a frame of their own draws them as pictures. */

const MAX_MS = 20_000;

/** @type {Promise<HTMLIFrameElement> | null} It is kept, because browsers keep no files for a frame without an origin. */
let opened = null;

/** @returns {Promise<HTMLIFrameElement>} */
function openFrame() {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts"); // it has no origin, and so nothing of this page
  frame.className = "diagram-frame";
  frame.ariaHidden = "true";
  frame.tabIndex = -1;
  frame.src = new URL("../diagram.html", import.meta.url).href;
  document.body.append(frame);
  return new Promise((resolve) => { frame.onload = () => resolve(frame); });
}

/**
 * Draw a diagram. An error says what is wrong with it, or nothing if that takes too long.
 * @param {string} text @param {"dark" | "light"} theme
 * @returns {Promise<string>} The address of a picture, in which nothing can run or be loaded.
 */
export async function drawDiagram(text, theme) {
  const frame = opened ??= openFrame();
  const { port1, port2 } = new MessageChannel();
  const svg = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      document.querySelector(".diagram-frame")?.remove();
      opened = null;
      reject(new Error());
    }, MAX_MS);
    port1.onmessage = ({ data }) => {
      clearTimeout(timer);
      if (data.svg) resolve(data.svg);
      else reject(new Error(data.problem));
    };
    frame.then(({ contentWindow }) => contentWindow?.postMessage({ text, theme }, "*", [port2]));
  });
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
