// A card plays its moment while the pointer rests on it, without sound.

import { clip as fetchClip } from "./api.js";
import { element } from "./dom.js";
import { Playback } from "./playback.js";

const REST_MS = 350;
const SHORTEST_S = 3;
const LONGEST_S = 12;
const LESS_MOTION = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * Let the still of a card play.
 *
 * @param {HTMLElement} card
 * @param {HTMLElement} still
 * @param {import("./selection.js").Stretch} stretch
 */
export function playOnHover(card, still, stretch) {
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
