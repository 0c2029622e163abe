// What is looked at, as the address of the page. Whatever is shown follows from a Place, so that back, forward,
// reload and a shared link all show the same.

import { fromJson, toJson } from "./conditions.js";
import { fromText, toText } from "./marks.js";

export const FIRST_CLIPS = 24;
const MOST_CLIPS = 200;
const FILE_STATES = ["indexed", "set_aside", "missing"];
const SORTS = ["name", "length", "size", "date"].flatMap((sort) => [sort, `-${sort}`]);
const ORDERS = ["latest", "earliest", "path"];

/**
 * @typedef {object} Place
 * @property {"search" | "library"} view
 * @property {string} q the sentence that is searched for
 * @property {string} then what is to come after it
 * @property {import("./marks.js").Mark[]} marks clips that were marked right or wrong, the latest last
 * @property {string | null} like id of the clip that results should be like
 * @property {number | null} likeTime where in it, in seconds
 * @property {string | null} picture name of the picture that is searched for, which this browser keeps
 * @property {import("./conditions.js").Condition[]} conditions filters that were clicked together
 * @property {string} where filter that was typed
 * @property {number} k how many clips to show
 * @property {string} browse order of clips that are looked through without a query; "" where they are not
 * @property {string | null} clip id of the clip in the player
 * @property {number | null} time where it is, in seconds
 * @property {string} state library view: only files of this state
 * @property {string} text library view: only files with this in their name
 * @property {string} sort library view: what files are sorted by, with a minus in the other direction
 * @property {number} page library view, from 1
 */

/** @type {Place} */
export const START = Object.freeze({
  view: "search",
  q: "",
  then: "",
  marks: [],
  like: null,
  likeTime: null,
  picture: null,
  conditions: [],
  where: "",
  k: FIRST_CLIPS,
  browse: "",
  clip: null,
  time: null,
  state: "",
  text: "",
  sort: SORTS[0],
  page: 1,
});

/** The question of a place in one sentence, as a saved search and the last searches keep it. */
export const wholeQuestion = ({ q, then }) => (then.trim() ? `${q.trim()}, then ${then.trim()}` : q.trim());

/** The place that the address bar names. */
export function here() {
  return read(new URL(location.href));
}

/**
 * The place that an address names. What cannot be understood in it is left out; a filter that cannot is taken as typed,
 * so that the server says what is wrong with it.
 */
export function read(url) {
  const given = url.searchParams;
  const filters = given.getAll("f").map((text) => condition(text) ?? text);
  const typed = [given.get("where") ?? "", ...filters.filter((one) => typeof one === "string")];
  const [clip, like] = [given.get("clip"), given.get("like")];
  return {
    view: url.pathname === "/library" ? "library" : "search",
    q: given.get("q") ?? "",
    then: given.get("then") ?? "",
    marks: given.getAll("mark").map(fromText).filter(Boolean),
    like,
    likeTime: like ? seconds(given.get(clip ? "like_t" : "t")) : null,
    picture: /^[0-9a-f]{16}$/.test(given.get("picture") ?? "") ? given.get("picture") : null,
    conditions: filters.filter((one) => typeof one !== "string"),
    where: typed.filter((one) => one.trim()).join(" and "),
    k: whole(given.get("k"), FIRST_CLIPS, MOST_CLIPS),
    browse: ORDERS.find((order) => order === given.get("browse")) ?? "",
    clip,
    time: clip ? seconds(given.get("t")) : null,
    state: FILE_STATES.find((state) => state === given.get("state")) ?? "",
    text: given.get("text") ?? "",
    sort: SORTS.find((sort) => sort === given.get("sort")) ?? START.sort,
    page: whole(given.get("page"), 1, Infinity),
  };
}

/** The address of a place. `t` is the time in the clip that is open, else in the clip that results are like. */
export function write(place) {
  const given = new URLSearchParams();
  const give = (name, value, unless) => value !== unless && value !== null && given.append(name, String(value));
  if (place.view === "library") {
    give("state", place.state, "");
    give("text", place.text, "");
    give("sort", place.sort, START.sort);
    give("page", place.page, 1);
  } else {
    give("q", place.q, "");
    give("then", place.then, "");
    for (const one of place.marks) give("mark", toText(one));
    give("like", place.like, null);
    give("picture", place.picture, null);
    give(place.clip ? "like_t" : "t", round(place.likeTime), null);
    for (const one of place.conditions) give("f", JSON.stringify(toJson(one)));
    give("where", place.where, "");
    give("k", place.k, FIRST_CLIPS);
    give("browse", place.browse, "");
  }
  give("clip", place.clip, null);
  give("t", place.clip && round(place.time), null);
  const path = place.view === "library" ? "/library" : "/";
  return `${given}` ? `${path}?${given}` : path;
}

/** @returns {boolean} whether something is searched for. */
export const asks = (place) => Boolean(place.q.trim() || place.like || place.picture !== null);

/** @returns {boolean} whether clips are looked through without a search: some by a filter, or all. */
export const browses = (place) =>
  !asks(place) && Boolean(place.browse || place.conditions.length || place.where.trim());

/** What a search depends on: two places with the same key have the same results. */
export const searchKey = ({ q, then, marks, like, likeTime, picture, conditions, where, k }) =>
  JSON.stringify([q.trim(), then.trim(), marks.map(toText), like, likeTime, picture, conditions.map(toJson), where.trim(), k]);

/**
 * Put a place into the address bar.
 *
 * @param {{replace?: boolean, opened?: boolean}} how `opened`: going back closes the player
 */
export function put(place, { replace = false, opened = false } = {}) {
  const state = { opened };
  if (replace) history.replaceState(state, "", write(place));
  else history.pushState(state, "", write(place));
}

const round = (time) => (time === null || time === undefined ? null : Math.round(time * 100) / 100);

function seconds(text) {
  const value = text === null || text === "" ? NaN : Number(text);
  return Number.isFinite(value) && value >= 0 ? value : null;
}

function whole(text, otherwise, most) {
  const value = Number(text);
  return Number.isInteger(value) && value >= 1 ? Math.min(value, most) : otherwise;
}

function condition(text) {
  try {
    return fromJson(JSON.parse(text));
  } catch {
    return null;
  }
}
