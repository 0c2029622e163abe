// Clips of a result that are nearly the same as a better one: they open from its card, and fold away again.

import { asHit } from "./browsing.js";
import { card } from "./cards.js";
import { element } from "./dom.js";
import { number } from "./format.js";

/**
 * Add a button to a card that shows the clips folded under it behind it.
 *
 * @param {HTMLElement} made the card
 * @param {import("./segments.js").Segment} hit
 * @param {import("./cards.js").Actions} actions
 */
export function addFolded(made, hit, actions) {
  if (!hit.folded?.length || hit.segment.number > 1) return;
  const told = `and ${number(hit.folded.length)} like it`;
  let shown = [];
  const toggle = () => {
    if (shown.length) shown.forEach((one) => one.remove());
    shown = shown.length ? [] : hit.folded.map((one) => underCard(one, actions));
    made.after(...shown);
    button.setAttribute("aria-expanded", String(shown.length > 0));
    button.textContent = shown.length ? "hide those like it" : told;
  };
  const button = element(
    "button",
    { type: "button", class: "folded", "aria-expanded": "false", title: "Nearly the same clips", onclick: toggle },
    told,
  );
  made.querySelector(".facts").append(button);
}

function underCard(one, actions) {
  const at = { time_s: one.time_s, start_s: one.time_s, end_s: one.time_s };
  const made = card({ ...asHit({ ...one, metadata: {} }), moments: [at] }, actions, ["nearly the same"]);
  made.classList.add("under");
  return made;
}
