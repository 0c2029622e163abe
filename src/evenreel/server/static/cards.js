// The cards of a result: what was found, when, and why. A card plays its moment while the pointer rests on it, and
// opens the clips that are nearly the same.

import { clip as fetchClip } from "./api.js";
import { breakable, element, fill, hasText, icon, marked, still } from "./dom.js";
import { clock, count, length, number } from "./format.js";
import { Playback } from "./playback.js";
import { stretchOf } from "./reasons.js";
import { cardActions, selectionBox } from "./selection.js";

/**
 * What a card asks for: to open a clip at a time, to find clips like it, or only such that show the same.
 *
 * @typedef {{address: (clipId: string, time: number) => string, open: (clipId: string, time: number) => void,
 *   like: ((clipId: string, time: number) => void) | null,
 *   narrow: (condition: import("./conditions.js").Condition) => void}} Actions
 */

/**
 * One result: the picture, why it is there in one line, then the name. It is one stop of the Tab key; the keys b, m, s
 * and x reach what else can be pressed.
 */
export function card(hit, actions, why) {
  const stretch = stretchOf(hit);
  const time = hit.moments[0]?.time_s ?? 0;
  const picture = still(hit.still, times(hit), wordsFound(hit));
  const made = element(
    "li",
    { class: "card", "data-clip": hit.clip_id, "data-time": time },
    picture,
    selectionBox(stretch, hit.name),
    element("p", { class: "reason", dir: "auto", title: textOf(why) }, why),
    element("h3", {}, link(hit, time, actions)),
    facts(hit),
    element(
      "footer",
      {},
      hit.why && explained(hit),
      cardActions(stretch),
      actions.like && likeButton(hit, time, actions),
    ),
  );
  addFolded(made, hit, actions);
  for (const one of made.querySelectorAll("button, summary, footer a")) one.tabIndex = -1;
  playOnHover(made, picture, stretch);
  return made;
}

const textOf = (why) => why.map((part) => part.textContent ?? part).join("");

/** Empty cards in the shape of real ones, while an answer is awaited. */
export function skeletons(amount) {
  const line = (kind) => element("span", { class: `line ${kind}` });
  return Array.from({ length: amount }, () =>
    element(
      "li",
      { class: "card skeleton", "aria-hidden": "true" },
      element("div", { class: "still" }),
      line("long"),
      line("short"),
    ),
  );
}

/** The words on screen or said that were found, which tell of a clip what its picture would. */
function wordsFound({ on_screen, said }) {
  const [sign] = [...on_screen, ...said].filter(hasText);
  return sign ? element("span", {}, marked(sign.text, sign.marks)) : undefined;
}

function times(hit) {
  const said = (text) => element("span", { class: "unseen" }, text);
  const best = hit.moments[0];
  return [
    best ? element("span", { class: "time" }, icon("play"), said("Best moment at "), clock(best.time_s)) : null,
    hit.duration_s === null ? null : element("span", { class: "length" }, said("Length "), length(hit.duration_s)),
  ];
}

function link(hit, time, actions) {
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab or window, as with any link
    event.preventDefault();
    actions.open(hit.clip_id, time);
  };
  return element(
    "a",
    { href: actions.address(hit.clip_id, time), title: hit.name, dir: "auto", onclick: open },
    breakable(hit.name),
  );
}

function facts(hit) {
  const told = [
    hit.source ? element("span", { class: "badge" }, hit.source) : null,
    hit.segment.of > 1 ? element("span", {}, `moment ${hit.segment.number} of ${hit.segment.of}`) : null,
    hit.other_files.length
      ? element("span", { title: hit.other_files.join("\n") }, count(hit.other_files.length, "more copy", "more copies"))
      : null,
  ].filter(Boolean);
  return told.length || hit.folded?.length ? element("p", { class: "facts" }, told) : null; // folded ones get a button
}

function explained(hit) {
  const summary = element("summary", {}, "Why", element("span", { class: "unseen" }, " this result"));
  const over = element("div", { class: "over", tabindex: 0 });
  const told = ({ currentTarget }) => fill(over, currentTarget.open ? hit.why(hit) : null);
  return element("details", { class: "explained", ontoggle: told }, summary, over);
}

function likeButton(hit, time, actions) {
  const ask = () => actions.like(hit.clip_id, time);
  return element(
    "button",
    { class: "quiet small like", type: "button", onclick: ask, title: `More like ${hit.name}` },
    icon("like"),
    element("span", { class: "like-text" }, "More like this"),
  );
}

/**
 * Add a button to a card that shows the clips folded under it behind it.
 *
 * @param {HTMLElement} made the card
 */
function addFolded(made, hit, actions) {
  if (!hit.folded?.length || hit.segment.number > 1) return;
  const told = `${number(hit.folded.length)} similar`;
  let shown = [];
  const toggle = () => {
    if (shown.length) shown.forEach((one) => one.remove());
    shown = shown.length ? [] : hit.folded.map((one) => underCard(one, actions));
    made.after(...shown);
    button.setAttribute("aria-expanded", String(shown.length > 0));
    button.textContent = shown.length ? "Hide similar" : told;
  };
  const button = element(
    "button",
    {
      type: "button",
      class: "folded",
      "aria-expanded": "false",
      title: "Clips that are nearly the same",
      onclick: toggle,
    },
    told,
  );
  made.querySelector(".facts").append(button);
}

/** What a clip is to the better one that it stands under. */
const KINSHIP = { same: "the same film", part: "a part of it", whole: "it is a part of this" };

function underCard(one, actions) {
  const from = one.from_s === null ? "" : `, from ${clock(one.from_s)}`;
  const at = { time_s: one.time_s, start_s: one.time_s, end_s: one.time_s };
  const made = card({ ...asHit({ ...one, metadata: {} }), moments: [at] }, actions, [(KINSHIP[one.reason] ?? "nearly the same clip") + from]);
  made.classList.add("under");
  return made;
}

const REST_MS = 350;
const SHORTEST_S = 3;
const LONGEST_S = 12;
const LESS_MOTION = matchMedia("(prefers-reduced-motion: reduce)");

/** Let the still of a card play. */
function playOnHover(card, still, stretch) {
  let timer = 0;
  let stop = null;
  const leave = () => {
    clearTimeout(timer);
    stop?.();
    stop = null;
  };
  card.addEventListener("pointerenter", ({ pointerType }) => {
    if (pointerType !== "mouse" || LESS_MOTION.matches) return;
    timer = setTimeout(() => (stop = play(still, stretch)), REST_MS);
  });
  card.addEventListener("pointerleave", leave);
  card.addEventListener("click", leave);
}

/** Play the stretch again and again; the answer ends it. */
function play(still, { clip_id, start_s, end_s }) {
  const video = element("video", { class: "moment", playsinline: true, tabindex: -1, "aria-hidden": "true" });
  video.muted = true; // an attribute would be read at parsing only
  const from = start_s ?? 0;
  const to = from + Math.min(LONGEST_S, Math.max(SHORTEST_S, (end_s ?? from) - from));
  const nobody = () => {};
  const playback = new Playback(video, {
    moved: (time) => time >= to && playback.seek(from),
    changed: nobody,
    noted: nobody,
    waiting: nobody,
    pictured: nobody,
  });
  video.addEventListener("ended", () => {
    playback.seek(from);
    playback.video.play().catch(nobody);
  });
  video.addEventListener("playing", () => still.classList.add("plays"));
  still.append(video);
  const request = new AbortController();
  fetchClip(clip_id, request.signal).then(
    (clip) => playback.open(clip, from, true),
    nobody, // the still stays
  );
  return () => {
    request.abort();
    playback.close();
    video.remove();
    still.classList.remove("plays");
  };
}

/** A clip of the list in the form of a hit, which nothing was searched for. */
export const asHit = (clip) => ({
  ...clip,
  source: clip.metadata.source ?? null,
  moments: [],
  on_screen: [],
  said: [],
  scores: {},
  parts: {},
  other_files: [],
  segment: { number: 1, of: 1 },
});
