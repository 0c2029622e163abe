// The second box: what is to come after what is in the first one.

import { byId } from "./dom.js";

const TYPING_MS = 300;

/**
 * Listen to the box and to the button that opens it.
 *
 * @param {{place: () => import("./address.js").Place, go: (changes: object, how?: object) => void}} page
 */
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

/**
 * Show what a place asks for; the button is there wherever a sentence is searched for.
 *
 * @param {import("./address.js").Place} place
 */
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
