// What is known of a clip, beside its video.

import { breakable, element, marked, still } from "./dom.js";
import { clock, length, shown } from "./format.js";

const STATES = { set_aside: "skipped", missing: "missing" };

/**
 * @param {HTMLElement | null} why why it was found
 * @param {import("./api.js").Moment[]} moments in the order of time
 * @param {import("./api.js").Sign[]} signs in the order of time
 * @param {HTMLElement | null} said the list of what is said
 */
export function about(clip, why, moments, signs, said, seek) {
  const parts = [why, momentList(moments, seek), said, signList(signs, seek), facts(clip), notes(clip.notes)];
  return parts.filter(Boolean);
}

function momentList(moments, seek) {
  if (!moments.length) return null;
  const items = moments.map((moment) =>
    element(
      "li",
      {},
      element(
        "button",
        {
          type: "button",
          onclick: () => seek(moment.time_s),
          "aria-label": `Go to the moment at ${clock(moment.time_s)}`,
        },
        still(moment.still),
        element("span", { class: "time" }, clock(moment.time_s)),
      ),
    ),
  );
  return element("section", {}, element("h3", {}, "Moments"), element("ul", { class: "moments" }, items));
}

function signList(signs, seek) {
  if (!signs.length) return null;
  const items = signs.map((sign) =>
    element(
      "li",
      {},
      element(
        "button",
        { type: "button", onclick: () => seek(sign.start_s) },
        element("span", { class: "time" }, clock(sign.start_s)),
        element("span", { dir: "auto" }, marked(sign.text, sign.marks)),
      ),
    ),
  );
  return element("section", {}, element("h3", {}, "Words on screen"), element("ul", { class: "words" }, items));
}

function facts(clip) {
  const rate = clip.fps ? `, ${+clip.fps.toFixed(2)} frames a second` : "";
  const rows = [
    ...clip.files.map((file) => [
      file.state === "indexed" ? "File" : `File (${STATES[file.state]})`,
      breakable(inFolder(file)),
    ]),
    ["Length", clip.duration_s === null ? "unknown" : length(clip.duration_s)],
    ["Picture", `${clip.width} × ${clip.height}${rate}`],
    ["Format", `${clip.codec} in ${clip.container}`],
    ...Object.entries(clip.metadata)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [name, shown(value)]),
  ];
  const row = ([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  return element("section", {}, element("h3", {}, "About"), element("dl", { class: "facts" }, rows.map(row)));
}

const inFolder = ({ folder, name }) => (folder ? `${folder}/${name}` : name);

function notes(sentences) {
  if (!sentences.length) return null;
  return element(
    "section",
    {},
    element("h3", {}, "Notes"),
    element(
      "ul",
      {},
      sentences.map((one) => element("li", {}, one)),
    ),
  );
}
