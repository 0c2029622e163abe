// What can be done with cards: select results to export them together, and buttons that other parts add.

import { byId, element, fill } from "./dom.js";
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

/** What is selected, in the order in which it was. */
export const selected = () => [...chosen.values()];

/** Be told whenever the selection changes. */
export const onSelection = (listener) => listeners.push(listener);

/** Select nothing. */
function clearSelection() {
  chosen.clear();
  changed();
}

/**
 * A box that selects a stretch. It is no stop of the Tab key: on a card, the key x ticks it.
 *
 * @param {string} name of the clip
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
  byId("selected-count").textContent = `${count(chosen.size, "clip")} selected`;
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

/**
 * Makes a button for a stretch of a clip, or null where it has none for it.
 *
 * @typedef {(stretch: import("./selection.js").Stretch & {name: string}, inPlayer: boolean) =>
 *   (HTMLElement | null | false)} ActionMaker
 */

/** @type {ActionMaker[]} */
const makers = [];

/** Add a button to each card that is made from now on, and to the player. */
export const addCardAction = (make) => makers.push(make);

/** The buttons of one card. */
export const cardActions = (stretch) =>
  element(
    "span",
    { class: "card-actions" },
    makers.map((make) => make(stretch, false)),
  );

/** Show the buttons of the clip that plays. */
export const showPlayerActions = (stretch) =>
  fill(
    byId("player-actions"),
    makers.map((make) => make(stretch, true)),
  );
