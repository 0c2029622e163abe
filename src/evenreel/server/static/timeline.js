// The line below the video: where it is, where its shots end, and the moments and words as marks to go to.

import { byId, element, fill } from "./dom.js";
import { clock } from "./format.js";

const NARROWEST_PERCENT = 0.6;
const MOMENTARY_S = 2;

export class Timeline {
  constructor(onSeek) {
    this.onSeek = onSeek;
    this.position = byId("position");
    this.duration = 0;
    this.position.addEventListener("input", () => onSeek(this.position.valueAsNumber));
  }

  /**
   * Lay out the marks.
   *
   * @param {number} duration in seconds
   * @param {[number, number][]} shots start and end of each in seconds
   * @param {import("./api.js").Sign[]} said what is said that the search matched
   */
  show(duration, moments, signs, shots, said) {
    this.duration = duration;
    this.position.max = String(duration || 1);
    fill(
      byId("moment-marks"),
      moments.flatMap((one) => [this.#range(one), this.#moment(one)].filter(Boolean)),
    );
    // The list beside the video has every word for the keyboard; hundreds of stops here would help nobody.
    fill(
      byId("sign-marks"),
      signs.map((one) => this.#sign(one)),
    );
    fill(
      byId("said-marks"),
      said.map((one) => this.#said(one)),
    );
    byId("said-marks").hidden = !said.length;
    byId("moment-marks").hidden = !moments.length;
    byId("sign-marks").hidden = !signs.length;
    this.#shots(shots);
  }

  /** Show where the clip is. */
  move(time) {
    const [now, end] = [time, this.duration].map((seconds) => this.#told(seconds));
    this.position.value = String(time);
    this.position.setAttribute("aria-valuetext", `${now} of ${end}`);
    this.position.style.setProperty("--done", String(this.#percent(time) / 100));
    byId("clock").textContent = `${now} / ${end}`;
  }

  #told(seconds) {
    return this.duration > 0 && this.duration < MOMENTARY_S ? `${seconds.toFixed(1)} s` : clock(seconds);
  }

  #moment(moment) {
    const { time_s: time, starts_s: starts, ends_s: ends } = moment;
    const said = `Moment at ${clock(time)}`;
    const around = ([first, last]) => `${clock(first)} to ${clock(last)}`;
    const title = starts && ends ? `${said}; likely starts at ${around(starts)}, ends at ${around(ends)}` : said;
    return this.#mark(moment, time, { "aria-label": said, title });
  }

  /** From where a moment may start to where it may end, paler. */
  #range({ starts_s: starts, ends_s: ends }) {
    if (!starts || !ends) return null;
    const range = element("span", { class: "range", "aria-hidden": "true" });
    range.style.insetInlineStart = `${this.#percent(starts[0])}%`;
    range.style.inlineSize = `${this.#percent(ends[1]) - this.#percent(starts[0])}%`;
    return range;
  }

  #shots(shots) {
    const marks = byId("shot-marks");
    fill(
      marks,
      shots.map(([start, end], number) => {
        const shot = element("span", { title: `Shot ${number + 1}, from ${clock(start)}` });
        shot.style.insetInlineStart = `${this.#percent(start)}%`;
        shot.style.inlineSize = `${this.#percent(end) - this.#percent(start)}%`;
        return shot;
      }),
    );
    marks.hidden = shots.length < 2;
    marks.setAttribute("aria-label", `${shots.length} shots`);
  }

  #sign(sign) {
    const said = `${clock(sign.start_s)} ${sign.text}`;
    const mark = { "aria-label": `Words on screen at ${said}`, title: said, tabindex: -1 };
    return this.#mark(sign, sign.start_s, { ...mark, class: sign.marks.length ? "matched" : null });
  }

  #said(one) {
    const title = `${clock(one.start_s)} ${one.text}`;
    return this.#mark(one, one.start_s, { "aria-label": `Said at ${title}`, title, tabindex: -1 });
  }

  #mark({ start_s: start, end_s: end }, time, attributes) {
    const mark = element("button", { type: "button", ...attributes, onclick: () => this.onSeek(time) });
    const width = Math.max(NARROWEST_PERCENT, this.#percent(end - start));
    mark.style.insetInlineStart = `${Math.min(this.#percent(start), 100 - width)}%`;
    mark.style.inlineSize = `${width}%`;
    return mark;
  }

  #percent(time) {
    return this.duration ? Math.min(100, Math.max(0, (time / this.duration) * 100)) : 0;
  }
}
