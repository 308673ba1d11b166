// What view_checks.py asks the page.
window.views = (() => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const name = (one) =>
    `${one.tagName.toLowerCase()} ${one.className} "${(one.ariaLabel || one.textContent).trim().slice(0, 40)}"`;
  const REGIONS = "main, nav, section, dialog, [role=log], [role=tabpanel], .drawer, .panel";
  const CONTROLS = "button, a[href], input, select, textarea, summary";
  const LAYERS = "dialog, .composer .box, .veil, .workspace[data-drawer] > *, .menu-items, .node-actions, .minimap, .newest, .cite-card";

  /** Whether a point of an element is out of sight. */
  const isCut = (one, x, y) => {
    for (let around = one.parentElement; around; around = around.parentElement) {
      if (getComputedStyle(around).overflow === "visible") continue;
      const box = around.getBoundingClientRect();
      if (x < box.left || x > box.right || y < box.top || y > box.bottom) return true;
    }
    return x < 0 || y < 0 || x > innerWidth || y > innerHeight;
  };

  /** What lies over a control, if it is neither its own part nor a layer above the page. */
  const coverOf = (one) => {
    const box = one.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    if (!one.checkVisibility() || box.width < 8 || isCut(one, x, y)) return null;
    const hit = document.elementFromPoint(x, y);
    const layer = hit?.closest(LAYERS);
    return !hit || hit.contains(one) || one.contains(hit) || (layer && !layer.contains(one)) ? null : hit;
  };

  const look = () => {
    const problems = [];
    const width = document.documentElement.scrollWidth;
    if (width > innerWidth) problems.push(`the page scrolls sideways: ${width}`);
    for (const one of document.querySelectorAll(REGIONS)) {
      if (!one.checkVisibility() || getComputedStyle(one).display === "inline") continue;
      if (one.scrollWidth > one.clientWidth + 1) {
        problems.push(`${name(one)} is wider than its place: ${one.scrollWidth} > ${one.clientWidth}`);
      }
    }
    for (const one of document.querySelectorAll(CONTROLS)) {
      const cover = coverOf(one);
      if (cover) problems.push(`${name(one)} is covered by ${name(cover)}`);
    }
    const send = document.querySelector(".composer .box .primary");
    if (send?.checkVisibility() && !document.querySelector("dialog[open], .veil")) {
      const { left, right, top, bottom } = send.getBoundingClientRect();
      if (left < 0 || top < 0 || right > innerWidth || bottom > innerHeight) problems.push(`Send is outside: ${bottom}`);
    }
    return problems;
  };

  const count = () => ["main", "h1"].map((tag) => document.querySelectorAll(tag).length);
  const moving = () => document.getAnimations().filter(({ playState }) => playState === "running")
    .map((each) => `${name(each.effect.target)} ${each.animationName || each.transitionProperty}`);

  const openPanel = async () => {
    if (document.querySelector(".workspace:not([data-drawer=panel])")) document.querySelector(".top [data-part=panel]").click();
    await frame();
  };
  /** Choose the other language in the header or its menu, also while a dialog is open. */
  const switchLanguage = async () => {
    const find = () => [...document.querySelectorAll(".top button")]
      .find((one) => /^\s*(English|中文)\s*$/.test(one.ariaLabel || one.textContent));
    if (!find()) document.querySelector(".top .menu > button").click();
    await frame();
    find().click();
    if (location.protocol !== "file:") { // a run file has no server
      for (const name of ["help_texts", "server_texts"]) await import(`/page/js/${name}.js`);
    }
    await frame();
  };
  /** What is wrong with the focus: it must be somewhere, in sight, and with a line around it. */
  const focus = () => {
    const one = document.activeElement;
    if (!one || one === document.body || !one.checkVisibility()) return "nothing has the focus";
    const isSeen = [one, one.closest("label")].some((each) => each && getComputedStyle(each).outlineStyle !== "none");
    const isOwn = one.matches(".box:focus-within textarea, .picture [data-node]:focus-visible"); // a border of their own
    return isSeen || isOwn ? "" : `the focus is not seen at ${name(one)}`;
  };

  /** What comes from canvases and documents, and what is marked as the server's own words. */
  const DATA = "code, pre, math, .picture, .minimap, .sketch, option, [lang=en], .sources, .words, .line, .need-row span.hint,"
    + " .variable header, .drawer section summary, .comparison summary, .tool :is(label, legend)";
  const latin = (names) => {
    const [own, found] = [new Set(names), new Set()];
    const read = (text, where) => {
      const words = (text.replace(/https?:\S+|\[ID:\d+\]/g, "").match(/[A-Za-z_]{2,}/g) ?? []).filter((word) => !own.has(word));
      if (words.length) found.add(`${where}: ${text.trim().slice(0, 80)}`);
    };
    for (const one of document.body.querySelectorAll("*")) {
      if (one.closest(DATA) || !one.checkVisibility() || ["SCRIPT", "NOSCRIPT"].includes(one.tagName)) continue;
      for (const each of one.childNodes) if (each.nodeType === Node.TEXT_NODE) read(each.data, name(one));
      for (const each of ["aria-label", "title", "placeholder", "aria-valuetext"]) read(one.getAttribute(each) ?? "", each);
    }
    return [...found];
  };
  return { frame, look, count, moving, openPanel, switchLanguage, focus, latin };
})();
