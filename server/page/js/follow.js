/** A log that follows what is written, as long as its reader is at the end. */

import { useEffect, useRef, useState } from "../vendor/preact.js";

const NEAR_PX = 40;

/**
 * Return the places of a log and of what is in it, whether its end is out of sight, and how to go there.
 *
 * Whatever grows is followed: texts, errors, forms. What the reader unfolds is not.
 * @param {boolean} isStill Whether nothing is followed, because it begins with what is to be read first.
 */
export function useFollowing(isStill) {
  const rests = useRef(isStill);
  rests.current = isStill;
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const content = useRef(/** @type {HTMLElement | null} */ (null));
  const follows = useRef(true);
  const [isAway, setAway] = useState(false);
  const toEnd = () => {
    follows.current = true;
    setAway(false);
    if (frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  };
  useEffect(() => {
    if (!isStill) return;
    follows.current = true;
    setAway(false);
  }, [isStill]);
  useEffect(() => {
    const log = frame.current;
    if (!log || !content.current) return undefined;
    const isNear = () => log.scrollHeight - log.scrollTop - log.clientHeight <= NEAR_PX;
    let top = log.scrollTop;
    const look = () => {
      if (isNear()) follows.current = true;
      else if (log.scrollTop < top) follows.current = false; // the reader has gone back
      top = log.scrollTop;
      setAway(!rests.current && !follows.current);
    };
    const unfold = (/** @type {any} */ event) => {
      if (event.target.closest?.("summary, [aria-expanded]")) follows.current = false;
    };
    const grow = () => {
      if (rests.current) return;
      if (follows.current) log.scrollTop = log.scrollHeight;
      else setAway(!isNear());
      top = log.scrollTop; // what has become shorter moves the reader as well
    };
    const observer = new ResizeObserver(grow);
    observer.observe(content.current);
    observer.observe(log);
    log.addEventListener("scroll", look, { passive: true });
    log.addEventListener("click", unfold, { capture: true });
    return () => {
      observer.disconnect();
      log.removeEventListener("scroll", look);
      log.removeEventListener("click", unfold, { capture: true });
    };
  }, []);
  return { frame, content, isAway, toEnd };
}
