// Why a clip is among the results, in one line and in sentences; and its moments far apart, each a result of its own.

import { element, hasText, marked } from "./dom.js";
import { clock, count, number } from "./format.js";

const FITS = 0.9; // share of nonsense queries that a match beats which is no weaker one
const WRITTEN = 0.5; // share of the words from which a clip is found by them
const LEAD = 24; // letters that may stand before the first mark
const MOST_SIGNS = 3;
const HOW = { said: "said", on_screen: "written", about: "caption" };
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
    return [hit.weaker ? "weaker match: " : "", `at ${first}, followed by ${second}`].filter(Boolean);
  }
  const bySight = Object.hasOwn(hit.scores, "seen");
  if (hit.written >= WRITTEN || !bySight) {
    const words = written(hit, query);
    if (words) return words;
  }
  if (hit.meaning && isBest(hit.meaning, hit.moments)) {
    const { source, text, start_s } = hit.meaning;
    return [`${HOW[source]}, in other words: “`, text, source === "about" ? "”" : `” at ${clock(start_s)}`];
  }
  if (hit.weaker) return ["weaker visual match"];
  if (hit.sounds !== null && hit.sounds > (hit.above_nonsense ?? 0)) return ["sound match", ...at(hit.moments[0])];
  return ["visual match", ...at(hit.moments[0])];
}

/** Whether the best moment is where a line says it in other words; a caption has no time. */
const isBest = ({ source, start_s, end_s }, [best]) =>
  source === "about" || (best !== undefined && start_s - 0.01 <= best.time_s && best.time_s <= end_s + 0.01);

/** By which words it is found: those of its best moment, else those on screen, said, in its caption, in its name. */
function written(hit, query) {
  const time = hit.moments[0]?.time_s;
  const holds = ({ start_s, end_s }) => time !== undefined && start_s - 0.01 <= time && time <= end_s + 0.01;
  const [signs, said] = [hit.on_screen, hit.said].map((texts) => texts.filter(hasText));
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
  return ["on screen: ", ...texts, ` at ${clock(shown.some(holds) ? time : shown[0].start_s)}`];
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

const NUMBERS = {
  seen: "Visual similarity",
  written: "Share of your words found",
  on_screen: "Words on screen",
  said: "Speech",
  about: "Name and caption",
  sounds: "Sound",
  meaning: "Meaning",
  reranked: "Matcher",
  first: "First scene",
  then: "Second scene",
};
const PARTS = { seen: "Matcher: seen", on_screen: "Matcher: on screen", both: "Matcher: both together" };

/**
 * Why a clip is among the results, a sentence for each way in which it was found, and the numbers folded below.
 *
 * @param {import("./api.js").FoundClip[]} hits all that are shown, among which it has its rank
 * @param {import("./address.js").Place} place what was asked
 */
export function explanation(hit, hits, place) {
  const texts = textsFound(hit, place.q);
  const seen = sight(hit, hits, place);
  const sentences = [
    ...steps(hit, place),
    ...texts,
    ...(hit.meaning ? [otherWords(hit.meaning)] : []),
    ...((texts.length || hit.meaning) && isWeak(hit) ? [] : seen), // then it is there for its words
    hit.sounds !== null && `${hit.sounds < FITS ? "Weaker sound" : "Sound"} match: its sound fits your words.`,
    rank(hit, hits, "reranked", (place) => `The matcher put it ${place} of the clips that it ordered.`),
  ];
  const items = sentences.filter(Boolean).map((one) => element("li", { dir: "auto" }, one));
  return [element("ul", { class: "sentences" }, items), numbers(hit)];
}

function steps({ steps: found }, { q, then }) {
  if (!found?.length) return [];
  const [first, second] = found.map((step) => clock(step.time_s));
  if (!then.trim()) return [`The first scene is at ${first}, the second at ${second}.`];
  return [`“${q.trim()}” is at ${first}, followed by “${then.trim()}” at ${second}.`];
}

function textsFound(hit, query) {
  const [signs, said] = [hit.on_screen, hit.said].map((texts) => texts.filter(hasText).slice(0, MOST_SIGNS));
  const told = (texts, how) => texts.map((text) => ["“", ...excerpt(text), `” is ${how} at ${clock(text.start_s)}.`]);
  const named = [
    ["Its caption", String(hit.metadata.caption ?? "")],
    ["Its name", hit.name],
  ]
    .map(([what, text]) => [what, { text, marks: marksOf(text, query) }])
    .filter(([, text]) => text.marks.length)
    .map(([what, text]) => [`${what} has your words: “`, ...excerpt(text), "”."]);
  const found = [...told(signs, "on screen"), ...told(said, "said"), ...named];
  const share = hit.written >= 0.995 ? "all" : "some";
  if (found.length && hit.written > 0 && words(query).length > 1) found.push(`It has ${share} of your words.`);
  return found;
}

function otherWords({ source, text, start_s }) {
  if (source === "about") return ["Its caption says it in other words: “", text, "”."];
  return ["“", text, `” is ${HOW[source]} at ${clock(start_s)}: what you look for, in other words.`];
}

const isWeak = ({ above_nonsense: share }) => share !== null && share < FITS;

function sight(hit, hits, { like, picture }) {
  if (!Object.hasOwn(hit.scores, "seen")) return [];
  const when = at(hit.moments[0]).join("");
  const shown = count(hits.length, "clip");
  const among = rank(hit, hits, "seen", (place) => `By picture it is ${place} of the ${shown} shown.`);
  if (like || picture) return [`It looks like ${like ? "that clip" : "your picture"}${when}.`, among];
  if (isWeak(hit))
    return ["Weaker visual match: a nonsense query fits pictures here about as well.", among];
  return [`Visual match${when}: the picture fits your words better than nonsense does.`, among];
}

/** A sentence with the place of a clip by one score: the best, or number 2. */
function rank(hit, hits, channel, sentence) {
  const score = hit.scores[channel];
  const scored = hits.filter((one) => Object.hasOwn(one.scores, channel));
  if (score === undefined || scored.length < 2) return null;
  const better = scored.filter((one) => one.scores[channel] > score).length;
  return sentence(better ? `number ${number(better + 1)}` : "the best");
}

/** What the channels and the matcher measured, for those who study them. */
function numbers(hit) {
  const all = Object.entries({ ...hit.scores, written: hit.written || null });
  const measured = all.filter(([, value]) => value !== null);
  const rows = [
    ...measured.map(([name, value]) => [NUMBERS[name] ?? name, value]),
    ...Object.entries(hit.parts).map(([name, value]) => [
      `${PARTS[name] ?? name}${name === "on_screen" && hit.none_read ? " (none read)" : ""}`,
      value,
    ]),
    ["Score", hit.score],
  ];
  const row = ([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value.toPrecision(3)));
  return element(
    "details",
    { class: "numbers" },
    element("summary", {}, "Numbers"),
    element("dl", {}, rows.map(row)),
  );
}

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
