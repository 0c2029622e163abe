// The keyboard: from the field to the cards with the down arrow, among them with the arrows, and a list of all keys.

import { byId, element, fill } from "./dom.js";

const SAME_ROW_PX = 8;
const KEYS = {
  "On the page": [
    ["/", "go to the search field"],
    ["↓", "go from the field to the first result"],
    ["Esc", "leave a picture, a panel or the player"],
    ["?", "show this list"],
  ],
  "On a result": [
    ["← ↑ → ↓", "go to the next result; from the first row up to the field"],
    ["Enter", "play from its moment"],
    ["x", "select or deselect"],
    ["m", "more like this"],
    ["s", "why this result"],
    ["b", "go to its buttons; ← and → move among them, Esc goes back"],
  ],
  "In the player": [
    ["Space", "play or pause"],
    ["← →", "one second back or forward; five in clips of more than a minute"],
    [", .", "one frame back or forward"],
    ["< >", "slower or faster"],
    ["p n", "previous or next moment"],
    ["m", "mute"],
    ["f", "full screen"],
  ],
};

/** Listen to the keys that move the focus among the cards, and to the one that shows all keys. */
export function listenToCards() {
  const view = byId("search-view");
  view.addEventListener("keydown", (event) => {
    if (isModified(event)) return;
    const link = event.target.closest(".card h3 a");
    if (link) onCard(event, link);
    else if (event.target.closest(".card")) inCard(event);
  });
  byId("query").addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" || isModified(event)) return;
    const [first] = links(view);
    if (first) goTo(event, first);
  });
  listenToHelp();
}

const isModified = (event) => event.altKey || event.ctrlKey || event.metaKey;

function onCard(event, link) {
  const to = event.shiftKey ? undefined : neighbour(links(byId("search-view")), link, event.key);
  if (to) {
    goTo(event, to);
    return;
  }
  const card = link.closest(".card");
  const acts = {
    m: () => card.querySelector(".like")?.click(),
    s: () => card.querySelector(".explained summary")?.click(),
    b: () => buttons(card)[0]?.focus(),
  };
  if (!Object.hasOwn(acts, event.key)) return;
  event.preventDefault();
  acts[event.key]();
}

/** Among the buttons of a card. */
function inCard(event) {
  const card = event.target.closest(".card");
  const all = buttons(card);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const to = event.key === "Escape" ? card.querySelector("h3 a") : step && all[all.indexOf(event.target) + step];
  if (to) goTo(event, to);
}

const buttons = (card) =>
  [...card.querySelectorAll("button, summary, footer a")].filter((one) => !one.disabled && one.checkVisibility());

function goTo(event, target) {
  event.preventDefault();
  event.stopPropagation();
  target.focus({ preventScroll: target.id !== "query" });
  target.closest(".card")?.scrollIntoView({ block: "nearest" });
}

const links = (view) => [...view.querySelectorAll(".card:not(.skeleton) h3 a")].filter((one) => one.checkVisibility());

/** Where a key leads from one of the links, as their cards lie on the screen. */
function neighbour(all, from, key) {
  const at = all.indexOf(from);
  if (key === "ArrowRight") return all[at + 1];
  if (key === "ArrowLeft") return all[at - 1];
  if (key === "Home") return all[0];
  if (key === "End") return all.at(-1);
  if (key !== "ArrowDown" && key !== "ArrowUp") return undefined;
  return vertical(all, from, key === "ArrowDown" ? 1 : -1);
}

function vertical(all, from, direction) {
  const box = (link) => link.closest(".card").getBoundingClientRect();
  const { top, left } = box(from);
  const beyond = all
    .map((link) => ({ link, ...pick(box(link)) }))
    .filter((one) => (one.top - top) * direction > SAME_ROW_PX);
  if (!beyond.length) return direction < 0 ? byId("query") : undefined;
  const row = direction > 0 ? Math.min(...beyond.map((one) => one.top)) : Math.max(...beyond.map((one) => one.top));
  const inRow = beyond.filter((one) => Math.abs(one.top - row) <= SAME_ROW_PX);
  return inRow.reduce((best, one) => (Math.abs(one.left - left) < Math.abs(best.left - left) ? one : best)).link;
}

const pick = ({ top, left }) => ({ top, left });

function listenToHelp() {
  const dialog = byId("help");
  const group = ([title, rows]) =>
    element(
      "section",
      {},
      element("h3", {}, title),
      element(
        "dl",
        {},
        rows.map(([keys, what]) =>
          element(
            "div",
            {},
            element("dt", {}, keys.split(" ").map((key) => element("kbd", {}, key))),
            element("dd", {}, what),
          ),
        ),
      ),
    );
  fill(byId("help-keys"), Object.entries(KEYS).map(group));
  const show = () => dialog.open || dialog.showModal();
  byId("show-help").addEventListener("click", show);
  byId("help-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "?" || isModified(event) || event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else show();
  });
}
