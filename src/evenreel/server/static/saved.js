// What a person keeps: favourites, notes and saved searches; and, beside them on the home, highlights.

import { START, wholeQuestion } from "./address.js";
import { ApiError, highlights, mark, marks, newOf, patiently, removeSearch, savedSearches, saveSearch } from "./api.js";
import { asHit, card } from "./cards.js";
import { compose } from "./conditions.js";
import { announce, byId, element, fill, icon } from "./dom.js";
import { clock, number } from "./format.js";
import { addCardAction } from "./selection.js";

const SHOWN = 12;
const LONGEST_REASON = 80;

export class Saved {
  /** @param {import("./results.js").Wishes} wishes */
  constructor(wishes) {
    this.wishes = wishes;
    this.root = byId("saved");
    this.marks = [];
    this.searches = [];
    this.learning = Promise.resolve();
    this.fresh = new Set(); // clips that a saved search had not shown before
    this.place = null;
    this.shown = false;
    this.pictures = false; // until it is known
    this.save = element("button", { type: "button", class: "quiet", onclick: () => this.#toggleSearch() });
    byId("compact").before(this.save);
    addCardAction((stretch) => this.#star(stretch));
    addCardAction((stretch, inPlayer) => (inPlayer ? this.#note(stretch) : null));
    addCardAction((stretch) => this.fresh.has(stretch.clip_id) && element("span", { class: "badge new" }, "new"));
  }

  /** Ask what there is; where that cannot be had, the rest of the page does without. */
  learn() {
    this.learning = this.#learn();
  }

  async #learn() {
    try {
      [this.marks, this.searches] = await Promise.all([marks(), savedSearches()]);
    } catch (error) {
      this.#fail(error);
    }
    this.#refresh();
  }

  /** @param {{model: string | null, moments: number}} stats what the library holds: clips are unlike by their pictures */
  know({ model, moments }) {
    const before = this.pictures;
    this.pictures = model !== null && moments > 0;
    if (this.pictures && !before && this.shown) this.#unlike();
  }

  /** Follow the page to a place. */
  at(place, isHome) {
    this.place = place;
    this.#offer();
    if (isHome && !this.shown) {
      this.shown = true;
      this.#home();
      if (this.pictures) this.#unlike();
    }
    if (!isHome && this.shown) {
      this.shown = false;
      this.unlike = [];
      fill(this.root); // or its cards would be found among those of a result
    }
  }

  #refresh() {
    for (const button of document.querySelectorAll(".star")) this.#showStar(button);
    this.#offer();
    if (this.shown) this.#home();
  }

  #fail(error) {
    if (!(error instanceof ApiError)) throw error;
    announce(error.message);
    byId("player-note").textContent = error.message;
  }

  #markOf(clipId, time = null) {
    return this.marks.find((one) => one.clip_id === clipId && one.time_s === time) ?? null;
  }

  async #write(clipId, said) {
    await this.learning; // or what is written now would be missing in what was asked before
    try {
      const written = await mark(clipId, said);
      this.marks = this.marks.filter((one) => one.clip_id !== clipId || one.time_s !== written.time_s);
      if (written.favourite || written.note) this.marks.push(written);
    } catch (error) {
      this.#fail(error);
    }
    this.#refresh();
  }

  // Favourites

  #star({ clip_id: clipId, name }) {
    const press = () => this.#write(clipId, { favourite: button.getAttribute("aria-pressed") !== "true" });
    const button = element(
      "button",
      { type: "button", class: "plain star", "data-star": clipId, "data-name": name, onclick: press },
      icon("star"),
    );
    this.#showStar(button);
    return button;
  }

  #showStar(button) {
    const on = this.#markOf(button.dataset.star)?.favourite ?? false;
    button.setAttribute("aria-pressed", String(on));
    button.setAttribute("aria-label", `Favourite: ${button.dataset.name}`);
    button.title = on ? "Remove from favourites" : "Add to favourites";
    button.closest(".card")?.classList.toggle("is-favourite", on);
  }

  // Notes, in the player

  #note({ clip_id: clipId }) {
    const field = element("textarea", { rows: "4", maxlength: "10000", "aria-label": "Note", dir: "auto" });
    const there = element("ul", { class: "notes-there" });
    const when = element("button", { type: "button", class: "quiet" }, "Save at this time");
    const whole = element("button", { type: "button", class: "quiet" }, "Save for the clip");
    const list = () => {
      fill(
        there,
        this.marks.filter((one) => one.clip_id === clipId && one.note).map((one) => this.#noteRow(one, list)),
      );
      marker.classList.toggle("is-there", there.childElementCount > 0);
    };
    const keep = async (time) => {
      const text = field.value.trim();
      if (!text) return field.focus();
      const before = this.#markOf(clipId, time)?.note;
      await this.#write(clipId, { time_s: time, note: before ? `${before}\n${text}` : text });
      field.value = "";
      list();
    };
    let opened = 0; // where the clip was when the note was begun; it may play on
    when.addEventListener("click", () => keep(opened));
    whole.addEventListener("click", () => keep(null));
    const marker = element("summary", { class: "quiet" }, icon("note"), "Note");
    const panel = element("div", { class: "note-panel" }, there, field, element("p", {}, when, whole));
    const made = element("details", { class: "own-note" }, marker, panel);
    const open = () => {
      opened = Math.round(byId("position").valueAsNumber * 1000) / 1000;
      when.textContent = `Keep for ${clock(opened)}`;
      if (made.open) field.focus();
    };
    made.addEventListener("toggle", open);
    made.addEventListener("keydown", (event) => this.#keyOfNote(event, made, marker));
    list();
    return made;
  }

  /** Letters are written and steer no player; Escape closes the panel and not the player. */
  #keyOfNote(event, made, marker) {
    if (event.target === marker && event.key !== "Escape") return;
    event.stopPropagation();
    if (event.key !== "Escape" || !made.open) return;
    event.preventDefault();
    made.open = false;
    marker.focus();
  }

  #noteRow(one, list) {
    const remove = async () => {
      await this.#write(one.clip_id, { time_s: one.time_s, note: "" });
      list();
    };
    const where = one.time_s === null ? "The clip" : clock(one.time_s);
    return element(
      "li",
      {},
      element("span", { class: "time" }, where),
      element("span", { class: "text", dir: "auto" }, one.note),
      closing(`Delete the note: ${one.note.slice(0, LONGEST_REASON)}`, remove),
    );
  }

  // Saved searches

  #offer() {
    const asked = this.place !== null && isSentence(this.place);
    this.save.hidden = !asked;
    if (!asked) return;
    const there = this.#savedHere() !== undefined;
    this.save.setAttribute("aria-pressed", String(there));
    this.save.textContent = there ? "Saved" : "Save search";
    this.save.title = there ? "Remove this saved search" : "The start page shows what is new for it";
  }

  #savedHere() {
    const where = compose(this.place.conditions, this.place.where);
    return this.searches.find((one) => one.query === wholeQuestion(this.place) && (one.where ?? "") === where);
  }

  async #toggleSearch() {
    const there = this.#savedHere();
    if (there) return this.#remove(there);
    const where = compose(this.place.conditions, this.place.where);
    const query = wholeQuestion(this.place);
    const taken = this.searches.some((one) => one.name === query);
    this.save.disabled = true;
    await this.learning;
    try {
      const name = taken ? `${query} (${where})`.slice(0, 200) : query;
      this.searches.push(await patiently(() => saveSearch({ query, where: where || null, name: name.slice(0, 200) })));
    } catch (error) {
      this.#fail(error);
    }
    this.save.disabled = false;
    this.#offer();
    return undefined;
  }

  async #remove(search) {
    try {
      await removeSearch(search.name);
      this.searches = this.searches.filter((one) => one !== search);
    } catch (error) {
      this.#fail(error);
    }
    this.#refresh();
  }

  async #look(search) {
    try {
      this.fresh = new Set((await patiently(() => newOf(search.name, "seen"))).new);
      search.new = 0;
    } catch (error) {
      this.#fail(error);
    }
    this.wishes.go({ ...START, q: search.query, where: search.where ?? "" });
  }

  async #count(search, amount) {
    try {
      search.new ??= (await patiently(() => newOf(search.name, "news"))).new.length;
      amount.textContent = search.new ? `${number(search.new)} new` : "";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      amount.textContent = "?";
      amount.title = error.message;
    }
  }

  // The home

  #home() {
    const kept = this.marks.filter((one) => one.state !== "gone").toReversed();
    fill(this.root, this.#searchList(), this.#markRow(kept), this.#unlikeRow());
  }

  #searchList() {
    if (!this.searches.length) return null;
    const row = (search) => {
      const amount = element("span", { class: "amount" });
      this.#count(search, amount);
      return element(
        "li",
        { class: "saved-search" },
        element("button", { type: "button", class: "choice", onclick: () => this.#look(search) }, search.name, amount),
        closing(`Remove the saved search ${search.name}`, () => this.#remove(search)),
      );
    };
    return section("Saved searches", null, element("ul", { class: "words-list" }, this.searches.map(row)));
  }

  #markRow(kept) {
    if (!kept.length) return null;
    const all = () => this.wishes.go({ ...START, browse: "latest", where: "favourite or note is not null" });
    const button = element("button", { type: "button", class: "quiet small", onclick: all }, "Show all");
    const why = (one) => [one.note.split("\n")[0].slice(0, LONGEST_REASON) || "Favourite"];
    const made = kept.slice(0, SHOWN).map((one) => card(placed(one), this.wishes.cards, why(one)));
    return section("Favourites and notes", button, element("ul", { class: "cards row" }, made));
  }

  async #unlike() {
    try {
      const { clips, total } = await patiently(() => highlights(SHOWN));
      this.unlike = total > clips.length ? clips : []; // or they are all that there is
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the rest of the page does without
    }
    if (this.shown && this.unlike?.length) this.#home();
  }

  #unlikeRow() {
    if (!this.unlike?.length) return null;
    const made = this.unlike.map((one) => card(placed(one), this.wishes.cards, [one.folder || `at ${clock(one.time_s)}`]));
    return section("Highlights", null, element("ul", { class: "cards row" }, made));
  }
}

/** Whether a place asks by a sentence alone: a saved search holds no picture, and no clips that were marked. */
const isSentence = ({ view, q, like, picture, marks: marked }) =>
  view === "search" && q.trim() !== "" && !like && picture === null && !marked.length;

/** A kept clip in the form of a hit, at its moment if it has one. */
function placed(one) {
  const at = one.time_s === null ? [] : [{ time_s: one.time_s, start_s: one.time_s, end_s: one.time_s }];
  return { ...asHit({ ...one, metadata: {} }), moments: at };
}

function section(title, button, ...content) {
  return element("section", { "aria-label": title }, element("header", {}, element("h3", {}, title), button), ...content);
}

const closing = (label, onclick) =>
  element("button", { type: "button", class: "plain", "aria-label": label, title: "Remove", onclick }, icon("close"));
