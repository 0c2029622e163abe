// The results of a search, in each of its states: loading, waiting for the model, found, nothing
// that fits, nothing at all, and failed. Matches stand in the open, the weaker ones are folded away.

import { FIRST_CLIPS, searchKey } from "./address.js";
import { ApiError, patiently, pause, search, searchImage, similar } from "./api.js";
import { card, skeletons } from "./cards.js";
import { compose } from "./conditions.js";
import { announce, byId, element, fill } from "./dom.js";
import { favoursPanel } from "./favours.js";
import { count, number } from "./format.js";
import { named } from "./marks.js";
import { pictureOf } from "./pictures.js";
import { explanation, reason, segmentsOf } from "./reasons.js";

const MOST_CLIPS = 200;
const SLOW_MS = 300;
const TYPING_ENDS_S = 0.9;
const SAID_MS = 1000; // pause in the typing after which a screen reader is told what was found
const READS_ONLY = "Pictures are not searched here, only words on screen, words said, and names of files.";
const TOO_FEW = "No clip has enough of your words. Pictures are not searched here.";
const NOTHING_CLEAR = "No clip fits your words better than chance; the nearest are below.";
/**
 * @typedef {object} Wishes what the results ask of the page
 * @property {(place: Partial<import("./address.js").Place>) => void} go
 * @property {import("./cards.js").Actions} cards
 * @property {(place: import("./address.js").Place | null, signal?: AbortSignal) => Promise<HTMLElement | null>}
 *   refusedFilter what is wrong with the filters of a place, and how to be rid of it; of null, that nothing is
 * @property {boolean} readsOnly whether words are searched, and no pictures
 * @property {(() => void) | null} addPictures lets a person have pictures searched too, where that can be done
 * @property {() => void} answered
 */

export class Results {
  /** @param {Wishes} wishes */
  constructor(wishes) {
    this.wishes = wishes;
    this.root = byId("results");
    this.key = null;
    this.place = null;
    this.typing = false;
    this.paused = false; // whether nobody types just now
    this.tooSlow = false; // whether an answer takes too long to be asked for at each key
    this.answer = null;
    this.list = element("ul", { class: "cards" });
    this.others = element("ul", { class: "cards nearest" });
  }

  /** What was found of a clip in the shown answer. */
  hitOf(clipId) {
    return this.answer?.hits.find((hit) => hit.clip_id === clipId) ?? null;
  }

  /**
   * Show what a place asks for; nothing happens where that is shown already.
   *
   * @param {boolean} typing whether its sentence is still typed
   */
  show(place, typing = false) {
    const key = searchKey(place);
    if (key === this.key) return;
    this.key = key;
    this.place = place;
    this.typing = typing;
    this.paused = false;
    this.request?.abort();
    this.#search(place);
  }

  /** Search once more when the typing pauses: a slow model has read a beginning of the sentence. */
  pause() {
    if (this.key === null || !this.typing || this.paused || this.root.ariaBusy) return;
    this.paused = true;
    this.request?.abort();
    this.#search(this.place);
  }

  /** Show nothing any more. */
  leave() {
    if (this.key === null) return;
    this.request?.abort();
    this.key = this.answer = null;
    this.#clear();
  }

  /** Search again, though nothing changed but perhaps that the sentence is typed. */
  again(typing = this.typing) {
    this.key = null;
    this.show(this.place, typing);
  }

  /** Say why nothing can be shown at all. */
  fail(error, again = () => this.again()) {
    if (!(error instanceof ApiError)) throw error;
    this.answer = null;
    this.#clear(failure(error, again));
    announce(error.message);
  }

  async #search(place) {
    const request = (this.request = new AbortController());
    if (place.picture && !pictureOf(place.picture)) {
      this.answer = null;
      this.#clear(noPicture());
      return;
    }
    this.#showLoading(place);
    try {
      const ask = () => this.#timed(place, request.signal);
      const answer = await patiently(ask, (error) => this.#showWaiting(error), request.signal);
      if (this.typing && !this.paused && !answer.answering) {
        await pause(TYPING_ENDS_S, request.signal); // half a word fits nothing; nor may what a slow model has read of it
        this.paused = true;
        return await this.#search(place);
      }
      if (request.signal.aborted) return;
      this.wishes.refusedFilter(null);
      this.#showAnswer(place, answer);
    } catch (error) {
      if (!request.signal.aborted) this.#refuse(place, error, request.signal);
    }
  }

  async #timed(place, signal) {
    const began = performance.now();
    const late = setTimeout(() => (this.tooSlow = true), SLOW_MS);
    try {
      const answer = await this.#ask(place, signal);
      this.tooSlow = performance.now() - began > SLOW_MS;
      return answer;
    } finally {
      clearTimeout(late);
    }
  }

  #ask(place, signal) {
    const where = compose(place.conditions, place.where);
    const options = { where, k: place.k, signal, words: place.q.trim() };
    if (place.picture) return searchImage(pictureOf(place.picture), options);
    if (place.like) return similar(place.like, place.likeTime, options);
    const marked = (right) => place.marks.filter((one) => one.right === right).map(named);
    const beside = { then: place.then.trim(), right: marked(true), wrong: marked(false) };
    const how = this.typing && { typing: true, ...(this.paused && { paused: true }) };
    return search(place.q.trimStart(), { ...options, how, beside });
  }

  async #refuse(place, error, signal) {
    const told = error.status === 400 ? await this.wishes.refusedFilter(place, signal) : null;
    if (signal.aborted) return;
    if (!told) {
      this.fail(error);
      return;
    }
    this.answer = null;
    this.#clear(told);
    announce(told.textContent);
  }

  #clear(...children) {
    clearTimeout(this.slow);
    this.root.removeAttribute("aria-busy");
    fill(this.root, ...children);
  }

  #showLoading(place) {
    clearTimeout(this.slow);
    this.root.setAttribute("aria-busy", "true");
    if (this.answer?.hits.length) {
      // The answer before stays, dimmed, until the next is there.
      this.slow = setTimeout(() => this.#showSlow(place), SLOW_MS);
      return;
    }
    const show = () => {
      this.#clear(heading("Searching…"), element("ul", { class: "cards" }, skeletons(8)));
      this.root.setAttribute("aria-busy", "true");
    };
    if (this.typing) this.slow = setTimeout(show, SLOW_MS); // most answers are there before
    else show();
  }

  /** Say over the answer before that another is under way. */
  #showSlow(place) {
    const sentence = `Searching for ${asked(place)}…`;
    const under = element("header", { class: "under-way" }, heading(sentence));
    this.root.querySelector(":scope > header")?.replaceWith(under);
    announce(sentence, this.typing ? SAID_MS : 0);
  }

  #showWaiting(error) {
    this.answer = null;
    const told = message("In a moment", error.message, "waiting");
    told.append(element("p", {}, "This page tries again by itself."));
    this.#clear(told, element("ul", { class: "cards" }, skeletons(8)));
    this.root.setAttribute("aria-busy", "true");
    announce(`${error.message} This page tries again by itself.`);
  }

  #showAnswer(place, answer) {
    const found = (one) => one && JSON.stringify([one.query, one.matches, one.hits]);
    if (this.paused && found(this.answer) === found(answer) && !this.root.querySelector(".under-way")) {
      clearTimeout(this.slow);
      this.root.removeAttribute("aria-busy");
      return;
    }
    const grows = this.answer !== null && this.#continues(answer);
    const from = grows ? this.answer.hits.length : 0;
    this.answer = answer;
    for (const hit of answer.hits) hit.why = (one = hit) => explanation(one, answer.hits, place);
    const answering = Math.max(from, answer.answering);
    const cards = this.#cards(answer.hits.slice(from, answering));
    const others = this.#cards(answer.hits.slice(answering));
    for (const [list, own] of [
      [this.list, cards],
      [this.others, others],
    ]) {
      if (grows) list.append(...own);
      else fill(list, own);
    }
    const favours = answer.answering ? favoursPanel(answer.favours) : null;
    this.#clear(this.#summary(answer), this.#groups(place, answer, grows), favours);
    if (grows) [...cards, ...others][0]?.querySelector("h3 a").focus({ preventScroll: true });
    this.wishes.answered();
  }

  #cards(hits) {
    return hits.flatMap(segmentsOf).map((segment) => card(segment, this.wishes.cards, reason(segment, this.place.q)));
  }

  /** The matches, then the weaker ones folded away; they stay open where they grow. */
  #groups(place, answer, grows) {
    const left = answer.hits.length - answer.answering;
    const wasOpen = grows && this.root.querySelector("details.others")?.open;
    const others = element(
      "details",
      { class: "others", open: wasOpen || false },
      element("summary", {}, count(left, "weaker match", "weaker matches")),
      this.others,
      left ? this.#more(place, answer) : null,
    );
    return element(
      "div",
      { class: "groups" },
      answer.answering ? this.list : null,
      left ? others : this.#more(place, answer),
    );
  }

  /** Whether an answer is the one before with more clips at its end, whose cards can stay. */
  #continues(answer) {
    const { query, matches, hits } = this.answer;
    const sameStart = hits.every((hit, place) => answer.hits[place]?.clip_id === hit.clip_id);
    return (
      query === answer.query &&
      matches === answer.matches &&
      hits.length < answer.hits.length &&
      sameStart &&
      (this.list.isConnected || this.others.isConnected)
    );
  }

  #summary(answer) {
    const filtered = this.place.conditions.length > 0 || this.place.where !== "";
    const found = `${told(answer)} ${asked(this.place)}${filtered && !answer.answering ? " with these filters" : ""}`;
    announce(answer.hits.length ? found : "No clip was found.", this.typing ? SAID_MS : 0);
    if (answer.hits.length && answer.answering)
      return element("header", {}, heading(found), took(answer), notices(answer));
    const ways = this.#waysOn(filtered);
    if (!answer.hits.length) {
      const { readsOnly } = this.wishes;
      const shown = message(
        "No clip was found",
        filtered ? "No clip passes the filters." : readsOnly ? READS_ONLY : "Try other words.",
      );
      shown.append(ways);
      return shown;
    }
    const calm = element("p", { class: "calm" }, this.wishes.readsOnly ? TOO_FEW : NOTHING_CLEAR);
    return element("header", {}, heading(found), took(answer), calm, ways, notices(answer));
  }

  /** What may find more: without the filters, or with pictures. */
  #waysOn(filtered) {
    const button = (text, onclick) => element("button", { type: "button", class: "quiet", onclick }, text);
    const { addPictures } = this.wishes;
    const unfilter = () => this.wishes.go({ conditions: [], where: "" });
    return element(
      "p",
      { class: "ways" },
      filtered ? button("Search without filters", unfilter) : null,
      addPictures ? button("Search pictures too", addPictures) : null,
    );
  }

  #more(place, answer) {
    if (answer.hits.length < place.k || place.k >= MOST_CLIPS) return null;
    const ask = () => this.wishes.go({ k: Math.min(MOST_CLIPS, place.k + FIRST_CLIPS) });
    return element(
      "p",
      { class: "further" },
      element("button", { type: "button", class: "quiet", onclick: ask }, "Show more"),
    );
  }
}

/** How many clips match; how many there are where it is not measured which are weaker. */
function told({ matches, answering, hits }) {
  if (!answering) return "Nothing fits";
  if (!matches) return count(hits.length, "clip");
  return `${count(matches, "clip")} ${matches === 1 ? "matches" : "match"}`;
}

function asked({ picture, like, q, then }) {
  const words = `“${q.trim()}”`;
  const beside = q.trim() ? ` with ${words}` : "";
  if (picture) return `like your picture${beside}`;
  if (like) return `like this one${beside}`;
  return then.trim() ? `${words}, followed by “${then.trim()}”` : words;
}

const heading = (...children) => element("h2", { id: "summary", tabindex: "-1" }, ...children);

const took = ({ took_ms: ms }) =>
  element("p", { class: "took" }, ms < 1000 ? `${number(Math.max(1, ms))} ms` : `${number(ms / 1000, 1)} s`);

const notices = ({ notices: sentences }) =>
  sentences.length
    ? element(
        "ul",
        { class: "notices" },
        sentences.map((one) => element("li", {}, one)),
      )
    : null;

/** A calm sentence with what can be done about it. */
export function message(title, sentence, kind = "") {
  return element(
    "div",
    { class: `message ${kind}` },
    element("h2", { id: "summary", tabindex: "-1" }, title),
    element("p", {}, sentence),
  );
}

/** Said where a link with a picture is opened in another browser than its own. */
function noPicture() {
  const sentence = "A picture stays in the browser in which it was chosen. Choose it again to search by it.";
  const shown = message("The picture is not in this browser", sentence);
  const choose = () => byId("choose-picture").click();
  const button = element("button", { type: "button", class: "quiet", onclick: choose }, "Choose a picture");
  shown.append(element("p", {}, button));
  return shown;
}

/** What went wrong, with a way on. */
export function failure(error, again) {
  const shown = message(error.status === 401 ? "This page is locked" : "That did not work", error.message, "failed");
  const wayOn =
    error.status === 401
      ? element("a", { href: location.href, class: "quiet", onclick: reload }, "Load the page again")
      : element("button", { type: "button", class: "quiet", onclick: again }, "Try again");
  shown.append(element("p", {}, wayOn));
  return shown;
}

function reload(event) {
  event.preventDefault();
  location.reload();
}
