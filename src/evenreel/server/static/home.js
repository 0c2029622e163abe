// The page before a search: what the library holds, the latest searches and clips, examples that find something, and
// the days and folders to look through.

import { ApiError, browse, examples, patiently } from "./api.js";
import { asHit, card } from "./cards.js";
import { byId, element, fill, hasText } from "./dom.js";
import { count, dayTold, number, span, withinTold } from "./format.js";
import { forgetSearches, recentSearches } from "./remembered.js";
import { failure } from "./results.js";

const RECENT_CLIPS = 12;
const FEW_GROUPS = 12;
const LANGUAGE =
  "Put words in “quotes” to find them exactly. " +
  "Start with said:, on-screen:, seen: or sounds: to search only one of them.";
const KINDS = { read: "Words on screen", said: "Speech", caption: "Captions" };

export class Home {
  /** @param {import("./results.js").Wishes} wishes */
  constructor(wishes) {
    this.wishes = wishes;
    this.root = byId("home");
    this.stats = null;
    this.shown = false;
    this.found = []; // examples, which are asked for once
    this.clips = [];
  }

  /** Show it. */
  show() {
    this.#searches();
    if (this.shown || !this.stats) return;
    this.shown = true;
    const { clips, hours, name, notices } = this.stats;
    if (!clips) {
      fill(byId("home-head"), emptyLibrary());
      return;
    }
    fill(
      byId("home-head"),
      element("h2", {}, name),
      element("p", { class: "totals" }, `${count(clips, "clip")}, ${span(hours)}`, ...this.#toNotices(notices)),
    );
    this.#groups();
    this.#examples(this.found);
    this.#recent(this.clips);
    if (!this.found.length) this.#ask(() => examples(), (found) => this.#examples((this.found = found)));
    this.#ask(() => browse({ limit: RECENT_CLIPS }), ({ clips: latest }) => this.#recent((this.clips = latest)));
  }

  /** Show no clips any more, which would be found among those of a result. */
  leave() {
    this.shown = false;
    fill(byId("home-recent"));
  }

  /** @param {object} stats what the library holds */
  know(stats) {
    this.shown &&= this.stats?.clips === stats.clips;
    this.stats = stats;
    if (!this.root.hidden) this.show();
  }

  /** Say why nothing can be shown. */
  fail(error, again) {
    fill(byId("home-head"), failure(error, again));
  }

  /** What is true of every search stands in the view of the library. */
  #toNotices({ length: amount }) {
    if (!amount) return [];
    const go = (event) => {
      event.preventDefault();
      this.wishes.go({ view: "library" });
    };
    return [", ", element("a", { href: "/library", onclick: go }, count(amount, "notice"))];
  }

  async #ask(ask, take) {
    try {
      const answer = await patiently(ask);
      if (this.shown) take(answer);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the rest of the page does without
    }
  }

  #searches() {
    const searches = this.stats?.clips === 0 ? [] : recentSearches();
    const forget = () => {
      forgetSearches();
      this.#searches();
      byId("query").focus();
    };
    byId("home-searches").hidden = !searches.length;
    fill(
      byId("home-searches"),
      heading("Recent searches", element("button", { type: "button", class: "quiet small", onclick: forget }, "Clear")),
      element(
        "ul",
        { class: "words-list" },
        searches.map((q) => element("li", {}, choice(q, () => this.wishes.go({ q })))),
      ),
    );
  }

  #examples(found) {
    const { vision } = this.stats;
    const choosePicture = () => byId("choose-picture").click();
    const picture = hint("Search by picture", "Drop one anywhere, or choose a file", choosePicture);
    const readable = found.filter(({ query }) => hasText({ text: query }));
    fill(
      byId("home-examples"),
      heading("Try"),
      element(
        "ul",
        { class: "hints" },
        readable.map(({ kind, query: q }) => hint(KINDS[kind] ?? kind, `“${q}”`, () => this.wishes.go({ q }))),
        vision ? picture : null,
      ),
      element("p", { class: "calm" }, LANGUAGE),
    );
  }

  #recent(clips) {
    if (!clips.length) return;
    const list = () => this.wishes.go({ browse: "latest" });
    const all = element("button", { type: "button", class: "quiet small", onclick: list }, "All clips");
    fill(
      byId("home-recent"),
      heading("Latest clips", all),
      element(
        "ul",
        { class: "cards row" },
        clips.map((clip) => card(asHit(clip), this.wishes.cards, [dayTold(clip.day)])),
      ),
    );
  }

  #groups() {
    for (const [kind, id, title] of [
      ["days", "home-days", "By date"],
      ["folders", "home-folders", "By folder"],
    ]) {
      const facet = this.stats.facets.find((one) => one.kind === kind);
      const values = facet?.values.filter(({ value }) => value !== "") ?? [];
      byId(id).hidden = !values.length;
      if (values.length) fill(byId(id), heading(title), this.#values(facet, values));
    }
  }

  #values({ column, kind }, values) {
    const go = (within) => this.wishes.go({ conditions: [{ column, within, kind }] });
    const item = ({ value, clips }) =>
      element("li", {}, choice(withinTold(kind, value), () => go(value), number(clips)));
    const more = values.slice(FEW_GROUPS);
    return [
      element("ul", { class: "words-list" }, values.slice(0, FEW_GROUPS).map(item)),
      more.length
        ? element(
            "details",
            {},
            element("summary", {}, `${number(more.length)} more`),
            element("ul", { class: "words-list" }, more.map(item)),
          )
        : null,
    ].filter(Boolean);
  }
}

const heading = (text, beside = null) => element("header", {}, element("h3", {}, text), beside);

const choice = (text, act, amount = null) =>
  element(
    "button",
    { type: "button", class: "choice", onclick: act },
    element("span", { dir: "auto" }, text),
    amount === null ? null : element("span", { class: "amount" }, amount),
  );

function hint(what, example, act) {
  return element(
    "li",
    {},
    element(
      "button",
      { type: "button", onclick: act },
      element("span", { class: "what" }, what),
      element("span", { dir: "auto" }, example),
    ),
  );
}

function emptyLibrary() {
  const text = element("p", {}, "Add a folder of videos, on the machine that serves it:");
  const command = element("pre", {}, element("code", {}, "evenreel index VIDEOS"));
  return element("div", { class: "message empty" }, element("h2", {}, "This library is empty"), text, command);
}
