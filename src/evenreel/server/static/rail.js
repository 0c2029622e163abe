// Where the filters stand: in a rail beside the results where there is room, in a drawer over them where there is not.

import { byId } from "./dom.js";

const WIDE = matchMedia("(min-width: 80rem)");

export class FilterPlace {
  constructor() {
    this.wanted = true; // whether a reader wants the rail
    this.results = false; // whether there is anything beside which it could stand
    this.drawer = byId("filter-drawer");
    this.button = byId("toggle-filters");
    this.button.addEventListener("click", () => this.#toggle());
    byId("close-filters").addEventListener("click", () => this.#close());
    this.drawer.addEventListener("click", (event) => event.target === this.drawer && this.drawer.close());
    this.drawer.addEventListener("close", () => this.#arrange());
    WIDE.addEventListener("change", () => this.#arrange());
    this.#arrange();
  }

  /**
   * Say whether there are results, beside which the rail stands unless a reader closed it.
   *
   * @param {boolean} results
   */
  show(results) {
    if (results === this.results) return;
    this.results = results;
    this.#arrange();
  }

  /** Show the filters, wherever they stand. */
  open() {
    this.wanted = true;
    this.results = true;
    if (!WIDE.matches && !this.drawer.open) this.drawer.showModal();
    this.#arrange();
  }

  get #isOpen() {
    return WIDE.matches ? this.wanted && this.results : this.drawer.open;
  }

  #toggle() {
    if (this.#isOpen) this.#close();
    else {
      this.open();
      byId("filters").querySelector("input")?.focus();
    }
  }

  #close() {
    if (WIDE.matches) this.wanted = false;
    else this.drawer.close();
    this.#arrange();
    this.button.focus();
  }

  #arrange() {
    if (WIDE.matches && this.drawer.open) this.drawer.close();
    const home = WIDE.matches ? byId("rail") : this.drawer;
    if (byId("filter-panel").parentElement !== home) home.append(byId("filter-panel"));
    byId("rail").hidden = !WIDE.matches || !this.#isOpen;
    byId("search-view").classList.toggle("with-rail", !byId("rail").hidden);
    this.button.setAttribute("aria-expanded", String(this.#isOpen));
  }
}
