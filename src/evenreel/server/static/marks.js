// What is asked beside a sentence: clips marked right or wrong, and what is to come after, in a second box.

import { byId, element, icon } from "./dom.js";
import { count } from "./format.js";
import { addCardAction } from "./selection.js";

/**
 * @typedef {{right: boolean, clip: string, time: number | null}} Mark
 */

/** A mark in an address: r or w, the clip's id, and the seconds. */
export const toText = ({ right, clip, time }) => `${right ? "r" : "w"}:${named({ clip, time })}`;

/**
 * @returns {Mark | null} null where it is none
 */
export function fromText(text) {
  const found = /^([rw]):([0-9a-f]{32})(?:@(\d{1,7}(?:\.\d{1,6})?))?$/.exec(text);
  return found && { right: found[1] === "r", clip: found[2], time: found[3] === undefined ? null : Number(found[3]) };
}

/** A marked clip as the API names it. */
export const named = ({ clip, time }) => (time === null ? clip : `${clip}@${time}`);

/** Add the buttons to cards and player, and listen to the one that undoes. */
export function listenToMarks({ place, go }) {
  const mark = (right, { clip_id: clip, start_s, end_s }) => {
    const time = start_s === null ? null : Math.round(50 * (start_s + end_s)) / 100;
    go({ marks: [...place().marks.filter((one) => one.clip !== clip), { right, clip, time }], clip: null, time: null });
  };
  const button = (right, stretch) => {
    const marked = place().marks.some((one) => one.clip === stretch.clip_id && one.right === right);
    return element(
      "button",
      {
        class: "quiet small mark",
        type: "button",
        "aria-pressed": String(marked),
        title: right ? "Right: show more like this" : "Wrong: show less like this",
        "aria-label": `${right ? "Right" : "Wrong"}: ${stretch.name}`,
        onclick: () => mark(right, stretch),
      },
      icon(right ? "right" : "wrong"),
    );
  };
  for (const right of [true, false]) addCardAction((stretch) => (takesMarks(place()) ? button(right, stretch) : null));
  byId("undo-mark").addEventListener("click", () => go({ marks: place().marks.slice(0, -1) }));
  byId("clear-marks").addEventListener("click", () => go({ marks: [] }));
}

/** Marks move a sentence, not a picture or one moment after another. */
const takesMarks = ({ view, q, like, picture, then }) => view === "search" && q.trim() && !like && picture === null && !then;

/** Say how many clips are marked. */
export function showMarks({ marks }) {
  byId("marks").hidden = marks.length === 0;
  const right = marks.filter((one) => one.right).length;
  byId("marks-count").textContent = `${count(right, "clip")} right, ${marks.length - right} wrong`;
}

const TYPING_MS = 300;

/** Listen to the box and to the button that opens it. */
export function listenToThen({ place, go }) {
  const field = byId("then-field");
  let timer = 0;
  const ask = (typed) => {
    clearTimeout(timer);
    if (field.value.trim() !== place().then.trim()) go({ then: field.value, marks: [] }, { replace: typed });
  };
  byId("open-then").addEventListener("click", () => {
    byId("then").hidden = false;
    byId("open-then").hidden = true;
    field.focus();
  });
  byId("then").addEventListener("submit", (event) => {
    event.preventDefault();
    ask(false);
  });
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => ask(true), TYPING_MS);
  });
  byId("close-then").addEventListener("click", () => {
    field.value = "";
    ask(false);
    hide();
    byId("query").focus();
  });
}

/** Show what a place asks for; the button is there wherever a sentence is searched for. */
export function showThen(place) {
  const field = byId("then-field");
  if (place.then) {
    byId("then").hidden = false;
    byId("open-then").hidden = true;
    if (document.activeElement !== field) field.value = place.then;
    return;
  }
  const asks = place.q.trim() !== "" && !place.marks.length;
  if (!asks || document.activeElement !== field) hide();
  if (!asks) byId("open-then").hidden = true;
}

function hide() {
  byId("then").hidden = true;
  byId("then-field").value = "";
  byId("open-then").hidden = false;
}
