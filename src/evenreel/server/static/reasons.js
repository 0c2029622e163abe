// Why a clip is among the results, in one line; and its moments far apart, each a result of its own.

import { marked } from "./dom.js";
import { clock } from "./format.js";

const WRITTEN = 0.5; // share of the words from which a clip is found by them
const LEAD = 24; // letters that may stand before the first mark
const MOST_SIGNS = 3;
const COMMON = new Set(["the", "and", "for", "with", "that", "this", "from", "are", "was", "said", "seen"]);

/**
 * What is marked in a text: a stretch [start, end) in Unicode code points.
 *
 * @typedef {{text: string, marks: [number, number][]}} Marked
 */

/** The line: words, some of them marked. */
export function reason(hit, query) {
  if (hit.steps?.length) {
    const [first, second] = hit.steps.map((step) => clock(step.time_s));
    return [hit.weaker ? "nearest: " : "", `at ${first}, then at ${second}`].filter(Boolean);
  }
  const bySight = Object.hasOwn(hit.scores, "seen");
  if (hit.written >= WRITTEN || !bySight) {
    const words = written(hit, query);
    if (words) return words;
  }
  if (hit.weaker) return ["nearest in looks"];
  if (hit.sounds !== null && hit.sounds > (hit.above_nonsense ?? 0)) return ["sounds like it", ...at(hit.moments[0])];
  return ["looks like it", ...at(hit.moments[0])];
}

/** By which words it is found: those of its best moment, else those on screen, said, in its caption, in its name. */
function written(hit, query) {
  const time = hit.moments[0]?.time_s;
  const holds = ({ start_s, end_s }) => time !== undefined && start_s - 0.01 <= time && time <= end_s + 0.01;
  const { on_screen: signs, said } = hit;
  const heard = said.find(holds);
  if (said.length && (!signs.length || (heard && !signs.some(holds)))) return spoken(heard ?? said[0]);
  if (signs.length) return shownWords(signs, holds, time);
  const caption = String(hit.metadata.caption ?? "");
  const [inCaption, inName] = [caption, hit.name].map((text) => ({ text, marks: marksOf(text, query) }));
  if (inCaption.marks.length) return ["caption: ", ...excerpt(inCaption)];
  return inName.marks.length ? ["name: ", ...excerpt(inName)] : null;
}

/** Signs with words of the query that the ones before did not have, at the moment that is shown of them. */
function shownWords(signs, holds, time) {
  const told = new Set();
  const news = signs.filter((sign) => {
    const words = sign.marks.map(([from, to]) => Array.from(sign.text).slice(from, to).join("").toLowerCase());
    const isNew = words.some((word) => !told.has(word)) || (!words.length && !told.size);
    words.forEach((word) => told.add(word));
    return isNew;
  });
  const shown = (news.length ? news : signs).slice(0, MOST_SIGNS);
  const texts = shown.flatMap((sign, number) => [...(number ? [", "] : []), ...excerpt(sign)]);
  return ["says ", ...texts, ` at ${clock(shown.some(holds) ? time : shown[0].start_s)}`];
}

const spoken = (said) => ["said: “", ...excerpt(said), `” at ${clock(said.start_s)}`];

const at = (moment) => (moment ? [` at ${clock(moment.time_s)}`] : []);

/** A text from a little before its first mark on. */
function excerpt({ text, marks }) {
  const points = Array.from(text);
  const first = marks[0]?.[0] ?? 0;
  if (first <= LEAD) return marked(text, marks);
  const space = points.indexOf(" ", first - LEAD);
  const from = space === -1 || space >= first ? first : space + 1;
  const moved = marks.map(([start, end]) => [start - from, end - from]);
  return ["…", ...marked(points.slice(from).join(""), moved)];
}

/**
 * Where the words of a query stand in a text: what the page can tell of captions and names, which the server finds
 * by their forms too.
 */
function marksOf(text, query) {
  const wanted = words(query)
    .map(({ word }) => word)
    .filter((word) => word.length > 2 && !COMMON.has(word))
    .map(stem);
  return words(text)
    .filter(({ word }) => wanted.includes(stem(word)))
    .map(({ from, to }) => [from, to]);
}

/** The words of a text, without case and accents, and where they stand in it, in code points. */
function words(text) {
  const found = [];
  for (const match of text.matchAll(/[\p{L}\p{N}\p{M}]+/gu)) {
    const from = Array.from(text.slice(0, match.index)).length;
    const word = match[0].normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
    found.push({ word, from, to: from + Array.from(match[0]).length });
  }
  return found;
}

const stem = (word) => (word.length > 3 ? word.replace(/(es|s)$/, "") : word);

const LONG_S = 600;
const APART_S = 120;

/**
 * The stretches of a clip that stand as results of their own, the best first; one where it is short. Each is like the
 * hit, with the moments and the words that lie in it, and `segment`: which it is, of how many.
 *
 * @typedef {import("./api.js").FoundClip & {segment: {number: number, of: number}}} Segment
 */

export function segmentsOf(hit) {
  const together = hit.steps?.length || hit.duration_s === null; // both moments of an order are one result
  const groups = !together && hit.duration_s >= LONG_S ? apart(hit.moments) : [hit.moments];
  const nearest = (time) => {
    const far = groups.map((moments) => Math.min(...moments.map((one) => Math.abs(one.time_s - time))));
    return far.indexOf(Math.min(...far));
  };
  const within = (texts, number) => texts.filter((text) => groups.length === 1 || nearest(text.start_s) === number);
  return groups.map((moments, number) => ({
    ...hit,
    moments,
    on_screen: within(hit.on_screen, number),
    said: within(hit.said, number),
    still: number ? moments[0].still : hit.still,
    segment: { number: number + 1, of: groups.length },
  }));
}

/** The stretch that a segment stands for; without times where no moment of the clip was found. */
export function stretchOf({ clip_id, name, moments }) {
  const { start_s = null, end_s = null } = moments[0] ?? {};
  return { clip_id, name, start_s, end_s };
}

/** Moments in groups, those of one less than `APART_S` from its first. */
function apart(moments) {
  const groups = [];
  for (const moment of moments) {
    const near = groups.find(([first]) => Math.abs(first.time_s - moment.time_s) < APART_S);
    if (near) near.push(moment);
    else groups.push([moment]);
  }
  return groups.length ? groups : [[]];
}
