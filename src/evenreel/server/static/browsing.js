// Clips without a query: by the day on which they were recorded, or by their place; and what passes a filter.

import { ApiError, browse, patiently } from "./api.js";
import { asHit, card } from "./cards.js";
import { compose } from "./conditions.js";
import { announce, byId, element, fill } from "./dom.js";
import { count, dayTold } from "./format.js";
import { failure } from "./results.js";

const PAGE_CLIPS = 48;
const ORDERS = { latest: "Latest first", earliest: "Earliest first", path: "By folder and name" };

export class Browsing {
  /** @param {import("./results.js").Wishes} wishes */
  constructor(wishes) {
    this.wishes = wishes;
    this.root = byId("browsed");
    this.key = null;
    this.list = element("ul", { class: "cards" });
  }

  /** List the clips that a place asks for; nothing happens where they are listed already. */
  show(place) {
    const where = compose(place.conditions, place.where);
    const order = place.browse || "latest";
    const key = JSON.stringify([where, order]);
    if (key === this.key) return;
    this.key = key;
    this.place = place;
    this.asked = { where, order };
    this.listed = 0;
    this.#page();
  }

  /** Show nothing any more. */
  leave() {
    if (this.key === null) return;
    this.request?.abort();
    this.key = null;
    fill(this.root);
  }

  async #page() {
    this.request?.abort();
    const request = (this.request = new AbortController());
    this.root.setAttribute("aria-busy", "true");
    try {
      const wanted = { ...this.asked, limit: PAGE_CLIPS, offset: this.listed };
      const answer = await patiently(() => browse(wanted, request.signal), undefined, request.signal);
      if (request.signal.aborted) return;
      this.wishes.refusedFilter(null);
      this.#showPage(answer);
    } catch (error) {
      if (!request.signal.aborted) this.#refuse(error, request.signal);
    }
  }

  async #refuse(error, signal) {
    if (!(error instanceof ApiError)) throw error;
    this.key = null;
    const told = error.status === 400 ? await this.wishes.refusedFilter(this.place, signal) : null;
    if (signal.aborted) return;
    this.root.removeAttribute("aria-busy");
    fill(this.root, told ?? failure(error, () => this.show(this.place)));
  }

  #showPage({ total, clips }) {
    const cards = clips.map((clip) => card(asHit(clip), this.wishes.cards, [dayTold(clip.day)]));
    const isFirst = this.listed === 0;
    this.listed += clips.length;
    if (isFirst) fill(this.list, cards);
    else this.list.append(...cards);
    this.root.removeAttribute("aria-busy");
    const found = total ? count(total, "clip") : "No clip passes the filters";
    if (isFirst) announce(found);
    const title = element("h2", { id: "browsed-summary", tabindex: "-1" }, found);
    fill(this.root, element("header", {}, title, this.#orders()), this.list, this.#more(total));
    if (!isFirst) cards[0]?.querySelector("h3 a").focus({ preventScroll: true });
  }

  #orders() {
    const choose = ({ target }) => this.wishes.go({ browse: target.value });
    const options = Object.entries(ORDERS).map(([value, text]) =>
      element("option", { value, selected: value === this.asked.order }, text),
    );
    return element("select", { class: "order", "aria-label": "Order", onchange: choose }, options);
  }

  #more(total) {
    if (this.listed >= total) return null;
    const button = element("button", { type: "button", class: "quiet", onclick: () => this.#page() }, "Show more");
    return element("p", { class: "further" }, button);
  }
}
