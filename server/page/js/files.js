/** Files of the server: images, downloads and links. They need the key, so that they are fetched, never linked. */

import { createContext, html, useContext, useEffect, useRef, useState } from "../vendor/preact.js";
import { Told } from "./own_words.js";
import { t } from "./texts.js";

/** @typedef {(path: string) => Promise<Response>} Open */

const ID = "[0-9a-f]{32}";
const FILE = new RegExp(`^/?((?:api/v1/(?:documents/artifact|agents/attachments|document/download)|v1/document/download)/${ID}`
  + `(?:\\.[a-z0-9]{1,8})?(?:/(?:download|preview))?|api/v1/agents/download\\?id=${ID})(?:[?&][^#]*)?$`);
const MAX_NAME = 120;

/** Sends a request with the key; null where there is no server. */
export const FileAccess = createContext(/** @type {Open | null} */ (null));

/** @param {string} address @returns {string} The path of a file of this server, or "" for any other address. */
export function filePath(address) {
  const here = `${location.origin}/`;
  return FILE.exec(address.startsWith(here) ? address.slice(here.length) : address)?.[1] ?? "";
}

/** @param {any} file What a Message names: a download of a node, or the attachment that it wrote. @returns {string} */
function fileName(file) {
  return String(file.filename ?? file.file_name ?? file.name ?? t("download"));
}

/** @param {Blob} content @param {string} name */
export function saveAs(content, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  // eslint-disable-next-line no-control-regex -- control characters have no place in a file name
  link.download = name.replace(/[\x00-\x1f\x7f/\\:*?"<>|]+/g, "_").slice(0, MAX_NAME);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** @param {Open} open @param {string} path @param {string} name @returns {Promise<void>} */
export async function download(open, path, name) {
  saveAs(await (await open(path)).blob(), name);
}

/**
 * Return the addresses of images by their paths, which are loaded once.
 * @param {string[]} paths @returns {Record<string, string>}
 */
export function useImages(paths) {
  const open = useContext(FileAccess);
  const [images, setImages] = useState(/** @type {Record<string, string>} */ ({}));
  const asked = useRef(/** @type {Set<string>} */ (new Set()));
  useEffect(() => {
    for (const path of open ? paths.filter((each) => !asked.current.has(each)) : []) {
      asked.current.add(path);
      open?.(path).then((response) => response.blob()).then((content) => {
        if (content.type.startsWith("image/")) setImages((all) => ({ ...all, [path]: URL.createObjectURL(content) }));
      }, () => undefined); // the text of the image stays
    }
  }, [open, paths.join("\n")]);
  return images;
}

/** @param {{file: any}} props */
export function FileLink({ file }) {
  const open = useContext(FileAccess);
  const [problem, setProblem] = useState("");
  const name = fileName(file);
  const path = file.doc_id ? `api/v1/agents/download?id=${encodeURIComponent(file.doc_id)}` : "";
  const isImage = /^image\/(png|jpeg|gif|webp|bmp)$/.test(file.mime_type ?? "");
  const images = useImages(isImage && path ? [path] : []);
  if (!open || !path) return html`<p class="file">📎 ${name}</p>`;
  const save = () => download(open, path, name).then(() => setProblem(""), (error) => setProblem(error.message));
  return html`<p class="file">
    ${images[path] && html`<img class="shown-file" src=${images[path]} alt=${name} />`}
    <button type="button" onClick=${save}>${t("download")}: ${name}</button>
    ${problem && html`<span class="problem" role="alert"><${Told} text=${problem} /></span>`}</p>`;
}
