// What is said in the clip that plays: a caption under the video, and a list beside it that follows, can be searched,
// and leads to where it is said.

import { byId, element, fill, marked } from "./dom.js";
import { clock } from "./format.js";

const MOST_ROWS = 2000;
const SOURCES = { sidecar: "subtitles", stream: "subtitles in the file", recognised: "speech recognition" };

/**
 * @typedef {import("./api.js").Utterance} Utterance
 * @typedef {import("./api.js").Spoken} Spoken
 */

export class Transcript {
  /** @param {(time: number) => void} seek */
  constructor(seek) {
    this.seek = seek;
    this.section = null;
    this.time = -1;
    this.show([], []);
  }

  /**
   * Take what is said in a clip.
   *
   * @param {Spoken[]} spoken by each source
   * @param {import("./api.js").Sign[]} found what the search matched of it
   */
  show(spoken, found) {
    this.spoken = spoken;
    this.found = new Map(found.map((one) => [key(one), one]));
    const has = (one) => one.utterances.some((utterance) => this.found.has(key(utterance)));
    this.#choose(spoken.find(has) ?? spoken[0] ?? null);
  }

  /** The list, to stand among what is known of the clip; null where nothing is known to be said. */
  list() {
    if (!this.spoken.length) return (this.section = null);
    this.filter = element("input", {
      type: "search",
      placeholder: "Search the transcript",
      "aria-label": "Search the transcript",
      oninput: () => this.#rows(),
    });
    this.words = element("ul", { class: "words said", tabindex: 0, "aria-label": "Transcript" });
    this.section = element(
      "section",
      { class: "transcript" },
      element("h3", {}, "Transcript"),
      element("div", { class: "tools" }, this.filter, this.#languages()),
      this.words,
    );
    this.#rows();
    return this.section;
  }

  /** Show what is said at a time. */
  move(time) {
    this.time = time;
    const now = this.chosen ? at(this.chosen.utterances, time) : null;
    if (now === this.now) return;
    this.now = now;
    this.#caption();
    this.#follow();
  }

  #choose(spoken) {
    this.chosen = spoken;
    this.now = undefined;
    this.move(this.time);
  }

  #languages() {
    if (this.spoken.length < 2) return null;
    const name = (one) => `${one.language ?? "unknown language"} (${SOURCES[one.source]})`;
    const options = this.spoken.map((one, number) =>
      element("option", { value: String(number), selected: one === this.chosen ? "" : null }, name(one)),
    );
    const choose = (event) => {
      this.#choose(this.spoken[Number(event.target.value)]);
      this.#rows(); // which the row of what is said now is among
    };
    return element("select", { "aria-label": "Language of the transcript", onchange: choose }, options);
  }

  #rows() {
    const wanted = folded(this.filter.value.trim());
    const kept = this.chosen.utterances.filter((one) => !wanted || folded(spokenText(one)).includes(wanted));
    this.rows = new Map(kept.slice(0, MOST_ROWS).map((one) => [one, this.#row(one)]));
    const more = kept.length - this.rows.size;
    fill(this.words, [
      ...this.rows.values(),
      more > 0 && element("li", { class: "more" }, `${more} more lines: search to find them`),
      !kept.length && element("li", { class: "more" }, "No line has these words."),
    ]);
    this.#follow();
  }

  #row(one) {
    const found = this.found.get(key(one));
    return element(
      "li",
      {},
      element(
        "button",
        { type: "button", onclick: () => this.seek(one.start_s), class: found ? "matched" : null },
        element("span", { class: "time" }, clock(one.start_s)),
        element(
          "span",
          { dir: "auto" },
          one.speaker && element("b", {}, `${one.speaker}: `),
          found ? marked(found.text, found.marks) : one.text,
        ),
      ),
    );
  }

  #caption() {
    const caption = byId("caption");
    caption.textContent = this.now ? spokenText(this.now) : "";
    caption.hidden = !this.chosen;
  }

  /** Mark the row of what is said now, and bring it into view where nobody is reading elsewhere in the list. */
  #follow() {
    if (!this.section) return;
    this.words.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const row = this.now && this.rows.get(this.now);
    if (!row) return;
    row.setAttribute("aria-current", "true");
    if (this.words.matches(":hover, :focus-within")) return;
    const { words } = this;
    const above = row.offsetTop - words.scrollTop;
    if (above < 0 || above + row.offsetHeight > words.clientHeight) {
      words.scrollTop = row.offsetTop - words.clientHeight / 2;
    }
  }
}

/** What is said at a time: the last that has begun and not ended. */
function at(utterances, time) {
  let [low, high] = [0, utterances.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (utterances[middle].start_s <= time) low = middle + 1;
    else high = middle;
  }
  const last = utterances[low - 1];
  return last && time <= last.end_s ? last : null;
}

const key = (one) => `${one.start_s.toFixed(3)} ${one.text}`;

const spokenText = (one) => (one.speaker ? `${one.speaker}: ${one.text}` : one.text);

/** Letters that stand for one another in a search (`evenreel.language.folding`). */
const LETTERS = Object.fromEntries(
  "øo łl đd ðd ħh ŧt ıi ŋn æae œoe þth ßss ىی يی كک ةه ەه ہه ھه ٱا ـ"
    .split(" ")
    .map(([one, ...typed]) => [one, typed.join("")]),
);
const hiragana = (letter) => String.fromCodePoint(letter.codePointAt(0) - 0x60);
const folded = (text) =>
  Array.from(text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase(), (letter) => LETTERS[letter] ?? letter)
    .join("")
    .replace(/[ァ-ヶ]/g, hiragana);
