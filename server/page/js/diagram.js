/** Mermaid diagrams. Their sources are hostile, and their library is large: a frame of their own draws them as pictures. */

const MAX_MS = 20_000;

/**
 * It is kept, because browsers keep no files for a frame without an origin.
 * @type {{frame: HTMLIFrameElement, loaded: Promise<unknown>} | null}
 */
let opened = null;

/** @type {Promise<unknown>} The drawings are made one by one: the frame of one that takes too long has no other in it. */
let last = Promise.resolve();

function openFrame() {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts"); // it has no origin, and so nothing of this page
  frame.className = "diagram-frame";
  frame.ariaHidden = "true";
  frame.tabIndex = -1;
  frame.src = new URL("../diagram.html", import.meta.url).href;
  document.body.append(frame);
  return { frame, loaded: new Promise((resolve) => { frame.onload = resolve; }) };
}

/**
 * Draw a diagram. An error says what is wrong with it, or else its cause is a key of `TEXTS`.
 * @param {string} text @param {"dark" | "light"} theme
 * @returns {Promise<string>} The address of a picture, in which nothing can run or be loaded.
 */
export function drawDiagram(text, theme) {
  const drawn = last.then(() => draw(text, theme));
  last = drawn.catch(() => undefined);
  return drawn;
}

/** @param {string} text @param {"dark" | "light"} theme @returns {Promise<string>} */
async function draw(text, theme) {
  const { frame, loaded } = opened ??= openFrame();
  const { port1, port2 } = new MessageChannel();
  const svg = await new Promise((resolve, reject) => {
    const giveUp = (/** @type {string} */ cause) => { // the next drawing begins with another frame
      frame.remove();
      opened = null;
      reject(new Error("", { cause }));
    };
    const timer = setTimeout(giveUp, MAX_MS, "drawnTooLong");
    port1.onmessage = ({ data }) => {
      clearTimeout(timer);
      if (data.svg) resolve(data.svg);
      else if (data.isLost) giveUp("drawnWithout");
      else reject(new Error(data.problem));
    };
    loaded.then(() => frame.contentWindow?.postMessage({ text, theme }, "*", [port2]));
  });
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
