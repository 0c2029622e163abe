// Buttons that other parts of the page add to each card and to the player.

import { byId, element, fill } from "./dom.js";

/**
 * Makes a button for a stretch of a clip, or null where it has none for it.
 *
 * @typedef {(stretch: import("./selection.js").Stretch & {name: string}, inPlayer: boolean) =>
 *   (HTMLElement | null | false)} ActionMaker
 */

/** @type {ActionMaker[]} */
const makers = [];

/**
 * Add a button to each card that is made from now on, and to the player.
 *
 * @param {ActionMaker} make
 */
export const addCardAction = (make) => makers.push(make);

/**
 * The buttons of one card.
 *
 * @param {import("./selection.js").Stretch & {name: string}} stretch
 * @returns {HTMLElement}
 */
export const cardActions = (stretch) =>
  element(
    "span",
    { class: "card-actions" },
    makers.map((make) => make(stretch, false)),
  );

/**
 * Show the buttons of the clip that plays.
 *
 * @param {import("./selection.js").Stretch & {name: string}} stretch
 */
export const showPlayerActions = (stretch) =>
  fill(
    byId("player-actions"),
    makers.map((make) => make(stretch, true)),
  );
