// The dialog that exports clips: the form, their times, and what is to be known of the file that comes.

import { ApiError, exported } from "./api.js";
import { byId, element, fill, icon } from "./dom.js";
import { count } from "./format.js";
import { addCardAction, onSelection, selected } from "./selection.js";

const LEAST_S = 2; // a moment of one frame is widened to so much, as `evenreel export` does

/** The forms, as the server names them, and what they are for. */
const FORMS = [
  ["clip", "Video", "one file for each clip"],
  ["edl", "EDL", "CMX 3600, for editing programs; one for each frame rate"],
  ["fcpxml", "FCPXML", "for Final Cut Pro and DaVinci Resolve"],
  ["xmeml", "Premiere XML", "for Premiere Pro and DaVinci Resolve"],
  ["otio", "OTIO", "OpenTimelineIO, for editing programs"],
  ["srt", "Subtitles (SRT)", "the speech in each clip"],
  ["vtt", "Subtitles (WebVTT)", "the speech in each clip"],
  ["sheet", "Contact sheet", "one picture with a still of each clip"],
  ["csv", "Table (CSV)", "times, frames and timecodes"],
  ["json", "JSON", "the same table for programs"],
];

/** @typedef {import("./selection.js").Stretch & {name?: string}} Stretch */

class ExportDialog {
  constructor() {
    /** @type {Stretch[]} */
    this.stretches = [];
    this.start = timeField("Start", "export-start");
    this.end = timeField("End", "export-end");
    this.times = element("div", { class: "times" }, this.start.label, this.end.label);
    this.handles = timeField("Handles: seconds to add before and after each clip", "export-handles");
    this.handles.input.placeholder = "0";
    this.added = element("div", { class: "handles" }, this.handles.label);
    this.exact = element("input", { type: "checkbox", id: "export-exact" });
    this.exactly = element(
      "label",
      { class: "exactly" },
      this.exact,
      element(
        "span",
        {},
        "Frame-accurate (re-encodes) ",
        element("small", {}, "otherwise it begins at an earlier key frame"),
      ),
    );
    this.said = element("div", { class: "export-said", role: "status" });
    this.save = element("button", { type: "submit" }, "Save");
    this.title = element("h2", { id: "export-title" });
    this.dialog = element(
      "dialog",
      { class: "export", "aria-labelledby": "export-title", onclose: () => this.request?.abort() },
      element(
        "form",
        { method: "dialog", novalidate: true, onsubmit: (event) => this.#submit(event) },
        element("div", { class: "head" }, this.title, this.#closing()),
        this.times,
        this.added,
        element(
          "fieldset",
          { class: "forms", onchange: () => this.#chosen() },
          element("legend", {}, "Format"),
          FORMS.map(choice),
        ),
        this.exactly,
        this.said,
        element("div", { class: "tools" }, this.save),
      ),
    );
    this.dialog.addEventListener("keydown", (event) => event.stopPropagation());
    document.body.append(this.dialog);
  }

  /** Ask how these clips are to be exported. */
  open(stretches, title) {
    this.stretches = stretches;
    this.title.textContent = `Export ${title}`;
    this.times.hidden = stretches.length !== 1;
    this.added.hidden = !this.times.hidden;
    if (stretches.length === 1) this.#showTimes(stretches[0]);
    fill(this.said);
    this.#chosen();
    this.dialog.showModal();
  }

  #closing() {
    const close = element("button", { class: "plain", type: "button", "aria-label": "Close" }, icon("close"));
    close.addEventListener("click", () => this.dialog.close());
    return close;
  }

  #showTimes(stretch) {
    const { start_s, end_s } = widened(stretch);
    this.start.input.value = written(start_s);
    this.end.input.value = end_s === null ? "" : written(end_s);
    this.end.input.placeholder = "the end";
  }

  #form() {
    return this.dialog.querySelector("input[name=form]:checked").value;
  }

  #chosen() {
    this.exactly.hidden = this.#form() !== "clip";
  }

  /** What is wanted, or null where a time is none, which is said. */
  #wanted() {
    const fields = this.stretches.length === 1 ? [this.start, this.end] : [this.handles];
    const times = fields.map(({ input }) => seconds(input.value));
    if (times.some(Number.isNaN)) {
      this.#say(["Write times as 75.5, 1:15.5 or 1:02:03."], true);
      fields[times.findIndex(Number.isNaN)].input.focus();
      return null;
    }
    const [start, end] = times;
    if (fields.length === 2) return [{ ...this.stretches[0], start_s: start ?? 0, end_s: end }];
    return this.stretches.map(widened).map((one) => longer(one, start ?? 0));
  }

  async #submit(event) {
    event.preventDefault();
    const stretches = this.#wanted()?.map(({ clip_id, start_s, end_s }) => ({ clip_id, start_s, end_s }));
    if (!stretches) return;
    const request = (this.request = new AbortController());
    this.save.disabled = true;
    this.#say(["Exporting…"]);
    try {
      const title = new URLSearchParams(location.search).get("q")?.slice(0, 200) || "clips";
      const wanted = { form: this.#form(), stretches, exact: this.exact.checked, title };
      const { file, name, sentences } = await exported(wanted, request.signal);
      download(file, name);
      this.#say([`Saved ${name}.`, ...sentences]);
    } catch (error) {
      if (request.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.#say([error.message], true);
    } finally {
      this.save.disabled = false;
    }
  }

  #say(sentences, wrong = false) {
    this.said.classList.toggle("wrong", wrong);
    fill(
      this.said,
      sentences.map((sentence) => element("p", { dir: "auto" }, sentence)),
    );
  }
}

function choice([form, name, about], place) {
  const radio = element("input", { type: "radio", name: "form", value: form, checked: place === 0 });
  return element("label", {}, radio, element("span", {}, name, " ", element("small", {}, about)));
}

function timeField(name, id) {
  const input = element("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false" });
  return { input, label: element("label", {}, `${name} `, input) };
}

/** A stretch of at least LEAST_S; of a whole clip, its start is 0 and its end null. */
function widened({ start_s, end_s, ...rest }) {
  if (start_s === null || end_s === null) return { ...rest, start_s: start_s ?? 0, end_s };
  const missing = Math.max(0, LEAST_S - (end_s - start_s));
  const start = Math.max(0, start_s - missing / 2);
  return { ...rest, start_s: start, end_s: Math.max(end_s, missing ? start + LEAST_S : end_s) };
}

/** With seconds added before and after; the server ends it with its clip. */
const longer = ({ start_s, end_s, ...rest }, more_s) => ({
  ...rest,
  start_s: Math.max(0, start_s - more_s),
  end_s: end_s === null ? null : end_s + more_s,
});

/** 75.5 -> 1:15.500 */
function written(time) {
  const thousandths = Math.round(time * 1000);
  const minutes = Math.floor(thousandths / 60000);
  const rest = String(((thousandths % 60000) / 1000).toFixed(3)).padStart(6, "0");
  return `${minutes}:${rest}`;
}

/** 1:15.5 -> 75.5; null for nothing, NaN for what is no time. */
function seconds(text) {
  if (!text.trim()) return null;
  if (!/^(\d+:){0,2}\d+([.,]\d+)?$/.test(text.trim())) return NaN;
  return text.trim().replace(",", ".").split(":").reduce((total, part) => 60 * total + Number(part), 0);
}

function download(file, name) {
  const address = URL.createObjectURL(file);
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Add the buttons: on each card, in the player, in the bar of what is selected. */
export function listenToExport() {
  const dialog = new ExportDialog();
  addCardAction((stretch) =>
    element(
      "button",
      {
        class: "plain export-button",
        type: "button",
        "aria-label": `Export ${stretch.name}`,
        title: "Export: video, lists for editing programs, subtitles",
        onclick: () => dialog.open([stretch], stretch.name),
      },
      icon("save"),
      element("span", {}, "Export"),
    ),
  );
  const button = element("button", { class: "quiet", type: "button" }, icon("save"), "Export");
  button.addEventListener("click", () => dialog.open(selected(), count(selected().length, "clip")));
  byId("export").append(button);
  onSelection((stretches) => (button.disabled = stretches.length === 0));
}
