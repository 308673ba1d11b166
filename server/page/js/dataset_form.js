/** The form that adds files to a dataset, one after the other. The first one makes the dataset if it is missing. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { Choice, Line } from "./model_form.js";
import { Told } from "./own_words.js";
import { t } from "./texts.js";

const MEDIA = "application/octet-stream";

/**
 * @param {{api: import("./api.js").Api, dataset: string, isNew: boolean, onSaved: (text: string) => void}} props
 *   `dataset` is its id or name, "" for one that gets its name here. `onSaved` gets its size.
 */
export function DatasetForm({ api, dataset, isNew, onSaved }) {
  const [name, setName] = useState(isNew && !/^[0-9a-f]{32}$/.test(dataset) ? dataset : "");
  const [progress, setProgress] = useState(/** @type {{done: number, all: number} | null} */ (null));
  const [size, setSize] = useState(/** @type {any} */ (null));
  const [problems, setProblems] = useState(/** @type {string[]} */ ([]));
  const [isOver, setOver] = useState(false);
  const [others, setOthers] = useState(/** @type {any[]} */ ([]));
  const [use, setUse] = useState("");
  const canUse = isNew && Boolean(dataset);
  useEffect(() => { if (canUse) api.ragflow("datasets?page_size=100").then(setOthers, () => undefined); }, [api]);
  const choose = () => api.request(`native/v1/datasets/${encodeURIComponent(dataset)}`, { method: "PUT", body: { use } })
    .then((found) => onSaved(`${found.name}: ${t("datasetSize", found)}`), (error) => setProblems([error.message]));
  const add = async (/** @type {File[]} */ files) => {
    const failed = [];
    let answer = null;
    setProblems([]);
    for (const [done, file] of files.entries()) {
      setProgress({ done, all: files.length });
      const named = new URLSearchParams({ name: file.name, ...(name.trim() ? { dataset_name: name.trim() } : {}) });
      const path = `native/v1/datasets/${encodeURIComponent(dataset || name.trim())}/documents?${named}`;
      try {
        answer = await (await api.open(path, { method: "PUT", form: file, headers: { "Content-Type": MEDIA } })).json();
        setSize(answer);
      } catch (/** @type {any} */ error) {
        failed.push(error.message);
      }
    }
    setProgress(null);
    setProblems(failed);
    if (answer) onSaved(`${answer.name}: ${t("datasetSize", answer)}`);
  };
  const isLocked = Boolean(progress) || (!dataset && !name.trim());
  const drop = (/** @type {any} */ event) => {
    event.preventDefault();
    event.stopPropagation();
    setOver(false);
    if (!isLocked && event.dataTransfer.files.length) add([...event.dataTransfer.files]);
  };
  const files = html`${isNew && html`<${Line} label=${t("datasetName")} value=${name} onInput=${setName} isRequired=${!dataset}
      placeholder=${dataset} />`}
    <label class="drop" data-over=${isOver} data-locked=${isLocked} onDrop=${drop} onDragLeave=${() => setOver(false)}
      onDragOver=${(/** @type {Event} */ event) => { event.preventDefault(); setOver(true); }}>
      <${Icon} name=${progress ? "loader" : "file"} />
      <span role="status">${progress ? t("addingFiles", progress) : t("dropFiles")}</span>
      <small class="hint">${t("fileKinds")}</small>
      <input class="hidden" type="file" multiple disabled=${isLocked} aria-label=${t("addFiles")}
        onChange=${(/** @type {any} */ e) => { add([...e.target.files]); e.target.value = ""; }} /></label>
    ${size && html`<p class="outcome" data-state="done" role="status"><${Icon} name="circle-check" /> ${t("datasetSize", size)}</p>`}`;
  return html`<div class="mend">
    ${others.length > 0 && html`<${Choice} label=${t("dataset")} value=${use} onChange=${setUse}
      options=${[["", t("newDataset")], ...others.map((each) => [each.id, each.name])]} />`}
    ${use ? html`<p class="mend-actions"><button type="button" class="primary" onClick=${choose}>${t("save")}</button></p>` : files}
    ${problems.map((problem) => html`<p class="outcome" data-state="failed" role="alert"><${Icon} name="circle-x" /> <${Told} text=${problem} /></p>`)}
  </div>`;
}
