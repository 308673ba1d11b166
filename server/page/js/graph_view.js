/** The part of a drawing that its frame shows: moved, zoomed, and found by node. The DOM only, no turn. */

const MIN_SCALE = 0.02;
const MAX_SCALE = 4;
const REST_MS = 200;
const WHEEL = 0.0015;
const DRAG_PX = 4;
const TEXT_MARGIN = 12;
const MOST_NARROWED = 1.12;
const ELLIPSIS_PX = 12;
const READABLE = 0.75;
const EDGE_PX = 24;
/** The empty margin of a drawing, about: less than that is nothing. */
const CUT_PX = 16;
/** What the tools take at the lower edge of the frame, and the buttons below a node. */
export const TOOLS_PX = 48;
const ACTIONS_PX = 44;

/** @typedef {{id: string, parent: string, element: SVGGElement, x: number, y: number, width: number, height: number}} Box */

/** A drawing in its frame. It moves by a transformation, so that the browser paints it again only at rest. */
export class GraphView {
  /** @param {HTMLElement} frame @param {SVGSVGElement} svg */
  constructor(frame, svg) {
    this.frame = frame;
    this.svg = svg;
    this.sheet = /** @type {HTMLElement} */ (svg.parentElement);
    this.width = Number(svg.getAttribute("width")) || 100;
    this.height = Number(svg.getAttribute("height")) || 100;
    this.x = 0;
    this.y = 0;
    this.scale = 1;
    this.hasDragged = false;
    this.isMeasured = false;
    /** @type {"start"|"whole"|"reader"} What the frame shows: the node in the focus, everything, or what a reader chose. */
    this.shows = "start";
    /** The node that runs, and the one that a reader has chosen. */
    this.focus = "";
    this.chosen = "";
    /** @type {number | undefined} The picture that the browser shows next, and the end of a movement. */
    this.request = undefined;
    this.rest = 0;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    /** @type {Map<string, Box>} */
    this.boxes = new Map();
    for (const element of svg.querySelectorAll("[data-node]")) this.addBox(/** @type {SVGGElement} */ (element));
    this.edges = [...svg.querySelectorAll("path[data-from]")].map((path) => ({
      path, from: path.getAttribute("data-from") ?? "", to: path.getAttribute("data-to") ?? "",
    }));
    this.control = new AbortController();
    this.listen();
    this.begin();
  }

  /** @param {SVGGElement} element */
  addBox(element) {
    const rect = element.querySelector("rect");
    const read = (/** @type {string} */ name) => Number(rect?.getAttribute(name)) || 0;
    const id = element.dataset.node ?? "";
    const parent = element.dataset.parent ?? "";
    this.boxes.set(id, { id, parent, element, x: read("x"), y: read("y"), width: read("width"), height: read("height") });
    element.setAttribute("tabindex", this.boxes.size === 1 ? "0" : "-1");
    element.setAttribute("role", "button");
  }

  listen() {
    const { signal } = this.control;
    this.frame.addEventListener("wheel", (event) => this.wheel(event), { signal, passive: false });
    this.frame.addEventListener("pointerdown", (event) => this.grab(event), { signal });
    this.frame.addEventListener("pointermove", (event) => this.drag(event), { signal });
    const resized = new ResizeObserver(() => this.resize());
    resized.observe(this.frame);
    signal.addEventListener("abort", () => resized.disconnect());
  }

  close() {
    this.control.abort();
    clearTimeout(this.rest);
    if (this.request) cancelAnimationFrame(this.request);
  }

  /** Show the same again in a frame of another size. */
  resize() {
    if (this.shows === "start") this.begin();
    else if (this.shows === "whole") this.fit();
    else this.keepChosen();
  }

  /** Choose a node, or none with "". @param {string} id */
  choose(id) {
    this.chosen = id;
    if (id) this.resize(); // the drawer that describes it may have been faster
  }

  /** Bring the chosen node to the middle of a frame that has become too low for it, as by the drawer that describes it. */
  keepChosen() {
    const box = this.boxes.get(this.chosen);
    const room = this.frame.clientHeight - TOOLS_PX;
    const isHidden = box && this.y + (box.y + box.height) * this.scale + ACTIONS_PX > room;
    if (isHidden) this.y = (room - ACTIONS_PX) / 2 - (box.y + box.height / 2) * this.scale;
    this.show();
  }

  /** Show everything. */
  fit() {
    if (!this.frame.clientWidth) return;
    this.shows = "whole";
    this.place(this.fittingScale());
  }

  /** Show everything if it can be read then, else the node in the focus, or the beginning. */
  begin() {
    if (!this.frame.clientWidth) return;
    if (!this.isMeasured) this.narrowTexts();
    this.shows = "start";
    this.place(Math.max(READABLE, this.fittingScale()));
    const box = this.boxes.get(this.chosen) ?? this.boxes.get(this.focus) ?? this.beginning();
    if (box) this.uncover(box);
  }

  /** @returns {Box | undefined} Where the canvas begins; a group may be drawn before that. */
  beginning() {
    const all = [...this.boxes.values()];
    return all.find(({ id }) => id.toLowerCase().startsWith("begin")) ?? all[0];
  }

  /** Show a node that runs, unless a reader has chosen what is shown. @param {string} id */
  follow(id) {
    if (id === this.focus) return;
    this.focus = id;
    const box = this.boxes.get(id);
    if (!box || this.shows !== "start") return;
    this.uncover(box);
    this.show();
  }

  /** @returns {number} The scale at which the frame holds everything, at most 1. */
  fittingScale() {
    const { clientWidth, clientHeight } = this.frame;
    return Math.max(MIN_SCALE / 4, Math.min(1, clientWidth / this.width, (clientHeight - TOOLS_PX) / this.height));
  }

  /** @param {number} scale The middle of the drawing comes to the middle of the frame. */
  place(scale) {
    this.scale = scale;
    this.x = (this.frame.clientWidth - this.width * scale) / 2;
    this.y = (this.frame.clientHeight - TOOLS_PX - this.height * scale) / 2;
    this.show();
  }

  /** Move a drawing that is larger than the frame until a node is in it. @param {Box} box */
  uncover(box) {
    const { clientWidth } = this.frame;
    const room = this.frame.clientHeight - TOOLS_PX;
    const [width, height] = [this.width * this.scale, this.height * this.scale];
    if (width > clientWidth) {
      const middle = clientWidth / 2 - (box.x + box.width / 2) * this.scale;
      this.x = Math.min(EDGE_PX, Math.max(clientWidth - width - EDGE_PX, middle));
    }
    if (height > room) {
      const middle = room / 2 - (box.y + box.height / 2) * this.scale;
      this.y = Math.min(EDGE_PX, Math.max(room - height - EDGE_PX, middle));
    }
  }

  /** Narrow or cut the texts that leave their boxes: the server estimates widths, and browsers have fonts of their own. */
  narrowTexts() {
    this.isMeasured = true;
    /** @type {[SVGTextElement, number, number][]} Written after everything is read, so that the browser measures once. */
    const wide = [];
    for (const { element, x, width } of this.boxes.values()) {
      for (const text of element.querySelectorAll("text")) {
        const room = x + width - TEXT_MARGIN - Number(text.getAttribute("x"));
        if (text.hasAttribute("text-anchor") || text.closest("[data-node]") !== element || room <= 0) continue;
        const length = text.getComputedTextLength();
        if (length > room) wide.push([text, room, length > room * MOST_NARROWED ? charactersIn(text, room) : 0]);
      }
    }
    for (const [text, room, count] of wide) {
      if (count) text.textContent = `${text.textContent?.trim().slice(0, count).trimEnd()}…`; // its node's title is whole
      else text.setAttribute("textLength", room.toFixed(1));
      if (!count) text.setAttribute("lengthAdjust", "spacingAndGlyphs");
    }
  }

  /** @param {number} factor @param {{x: number, y: number}} [at] The point of the frame that stays. */
  zoom(factor, at) {
    const { x, y } = at ?? { x: this.frame.clientWidth / 2, y: this.frame.clientHeight / 2 };
    const scale = Math.min(MAX_SCALE, Math.max(Math.min(MIN_SCALE, this.scale), this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.shows = "reader";
    this.show();
  }

  /** @param {number} x @param {number} y Pixels of the frame. */
  move(x, y) {
    this.x += x;
    this.y += y;
    this.shows = "reader";
    this.show();
  }

  /** Bring a point of the drawing to the middle of the frame. @param {number} x @param {number} y */
  center(x, y) {
    this.move(this.frame.clientWidth / 2 - x * this.scale - this.x, this.frame.clientHeight / 2 - y * this.scale - this.y);
  }

  /** Bring a node to the middle, large enough to be read. @param {string} id */
  reveal(id) {
    const box = this.boxes.get(id);
    if (!box) return;
    this.scale = Math.max(this.scale, 0.6);
    this.center(box.x + box.width / 2, box.y + box.height / 2);
  }

  /** @param {string} text @returns {string} The first node that contains the text, in title, type or id, or "". */
  find(text) {
    const wanted = text.toLowerCase();
    const boxes = [...this.boxes.values()];
    const found = boxes.find((box) => box.id.toLowerCase() === wanted)
      ?? boxes.find((box) => `${box.id} ${box.element.textContent}`.toLowerCase().includes(wanted));
    return found?.id ?? "";
  }

  /** @param {Element} node @param {number} by Go to the next or the last node. */
  focusNext(node, by) {
    const all = [...this.boxes.values()];
    const at = all.findIndex((box) => box.element === node);
    const next = all[(at + by + all.length) % all.length];
    node.setAttribute("tabindex", "-1");
    next.element.setAttribute("tabindex", "0");
    this.reveal(next.id);
    next.element.focus({ preventScroll: true });
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    const { left, top } = this.frame.getBoundingClientRect();
    const delta = Math.max(-300, Math.min(300, event.deltaY * (event.deltaMode ? 30 : 1)));
    this.zoom(Math.exp(-delta * WHEEL), { x: event.clientX - left, y: event.clientY - top });
  }

  /** @param {PointerEvent} event */
  grab(event) {
    this.start = { x: event.clientX, y: event.clientY };
    this.last = this.start;
    this.hasDragged = false;
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (!this.start || !this.last || !(event.buttons & 1)) return;
    const far = Math.hypot(event.clientX - this.start.x, event.clientY - this.start.y);
    if (!this.hasDragged && far < DRAG_PX) return;
    if (!this.hasDragged) this.frame.setPointerCapture(event.pointerId);
    this.hasDragged = true;
    this.move(event.clientX - this.last.x, event.clientY - this.last.y);
    this.last = { x: event.clientX, y: event.clientY };
  }

  /** Say at which sides the frame cuts the drawing: it fades there. */
  fade() {
    const [right, bottom] = [this.x + this.width * this.scale, this.y + this.height * this.scale];
    const isCut = {
      left: this.x < -CUT_PX, right: right > this.frame.clientWidth + CUT_PX,
      top: this.y < -CUT_PX, bottom: bottom > this.frame.clientHeight + CUT_PX,
    };
    for (const [side, cuts] of Object.entries(isCut)) this.frame.style.setProperty(`--${side}`, cuts ? "var(--space-48)" : "0px");
  }

  /** Show the place at the next frame of the browser. While it moves, the browser only composes what it has painted. */
  show() {
    this.request ??= requestAnimationFrame(() => {
      this.request = undefined;
      this.sheet.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
      this.sheet.style.willChange = "transform";
      this.fade();
      clearTimeout(this.rest);
      this.rest = window.setTimeout(() => { this.sheet.style.willChange = ""; }, REST_MS);
      for (const listener of this.listeners) listener();
    });
  }
}

/** @param {SVGTextElement} text @param {number} room @returns {number} How many characters fit with an ellipsis after them. */
function charactersIn(text, room) {
  let count = text.getNumberOfChars() - 1;
  while (count > 1 && text.getSubStringLength(0, count) > room - ELLIPSIS_PX) count--;
  return count;
}
