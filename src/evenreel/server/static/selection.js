// What is selected of the results, to be taken away together, and the bar that says how much that is.

import { byId, element } from "./dom.js";
import { count } from "./format.js";

/**
 * A stretch of a clip; the times are in seconds, and null where all of the clip is meant.
 *
 * @typedef {{clip_id: string, start_s: number | null, end_s: number | null}} Stretch
 */

/** @type {Map<string, Stretch>} */
const chosen = new Map();
/** @type {((selected: Stretch[]) => void)[]} */
const listeners = [];

const key = ({ clip_id, start_s }) => `${clip_id} ${start_s ?? ""}`;

/**
 * What is selected, in the order in which it was.
 *
 * @returns {Stretch[]}
 */
export const selected = () => [...chosen.values()];

/**
 * Be told whenever the selection changes.
 *
 * @param {(selected: Stretch[]) => void} listener
 */
export const onSelection = (listener) => listeners.push(listener);

/** Select nothing. */
export function clearSelection() {
  chosen.clear();
  changed();
}

/**
 * A box that selects a stretch. It is no stop of the Tab key: on a card, the key x ticks it.
 *
 * @param {Stretch} stretch
 * @param {string} name of the clip
 * @returns {HTMLElement}
 */
export function selectionBox({ clip_id, start_s, end_s }, name) {
  const stretch = { clip_id, start_s, end_s };
  const box = element("input", {
    type: "checkbox",
    tabindex: -1,
    "aria-label": `Select ${name}`,
    onchange: () => choose(stretch, box.checked),
  });
  box.stretch = stretch;
  box.checked = chosen.has(key(stretch));
  return element("label", { class: "pick", title: "Select (x)" }, box);
}

function choose(stretch, on) {
  if (on) chosen.set(key(stretch), stretch);
  else chosen.delete(key(stretch));
  changed();
}

function changed() {
  byId("selection").hidden = chosen.size === 0;
  byId("selected-count").textContent = `${count(chosen.size, "result")} selected`;
  document.body.classList.toggle("selecting", chosen.size > 0);
  for (const box of document.querySelectorAll(".pick input")) box.checked = chosen.has(key(box.stretch));
  for (const listener of listeners) listener(selected());
}

/** Listen to the bar, and to the key that ticks the box of the card that has the focus. */
export function listenToSelection() {
  byId("clear-selection").addEventListener("click", clearSelection);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "x" || event.altKey || event.ctrlKey || event.metaKey) return;
    event.target.closest?.(".card a")?.closest(".card").querySelector(".pick input")?.click();
  });
}
