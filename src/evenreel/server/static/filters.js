// The filter panel: what the library's metadata offers, and a field for the filter language.

import { ApiError, browse, faceAddress } from "./api.js";
import { compose, isValue, isWithin, same } from "./conditions.js";
import { byId, element, fill, icon } from "./dom.js";
import { capital, number, shown, withinTold } from "./format.js";
import { message } from "./results.js";

/**
 * @typedef {import("./conditions.js").Condition} Condition
 * @typedef {{conditions: Condition[], where: string}} Filters
 */

const FEW_VALUES = 8;

/** The panel, its button and the chips of what is in use. */
export class FilterPanel {
  constructor(onChange) {
    this.onChange = onChange;
    this.facets = [];
    /** @type {Filters} */
    this.filters = { conditions: [], where: "" };
    this.refused = [];
    this.place = new FilterPlace();
  }

  /** Offer what a library can be filtered by; a column that is the same for every clip is no choice. */
  offer({ facets, clips }) {
    this.facets = facets;
    const choices = facets.filter(({ values, column }) => {
      const used = this.filters.conditions.some((one) => one.column === column);
      return used || values.length !== 1 || values[0].clips < clips;
    });
    fill(
      byId("filters"),
      this.#flags(choices.filter(isFlag)),
      choices.filter((facet) => !isFlag(facet)).map((facet) => this.#facet(facet)),
      this.#typed(),
    );
    this.show(this.filters);
  }

  /**
   * Show what is in use.
   *
   * @param {boolean} [results] whether there are results beside which the filters can stand
   */
  show(filters, results = this.place.results) {
    this.filters = filters;
    this.place.show(results);
    for (const box of byId("filters").querySelectorAll("input[type=checkbox]"))
      box.checked = this.#has(box.condition);
    for (const box of byId("filters").querySelectorAll("details input:checked")) box.closest("details").open = true;
    for (const end of byId("filters").querySelectorAll("input[type=number]")) this.#showEnd(end);
    const typed = byId("where");
    if (typed && typed !== document.activeElement) typed.value = filters.where;
    this.#chips();
    this.#showRefused();
  }

  /**
   * Find which filters the server refuses, each by itself, and say so by them.
   *
   * @param {Filters | null} filters null where all of them were taken
   * @returns {Promise<HTMLElement | null>} what is wrong, with buttons that remove it; null where no filter is
   */
  async refuse(filters, signal) {
    const parts = (filters?.conditions ?? []).map((one) => ({ condition: one, text: compose([one], "") }));
    if (filters?.where.trim()) parts.push({ condition: null, text: filters.where });
    const found = await Promise.all(parts.map((part) => refusalOf(part, signal)));
    if (signal?.aborted) return null;
    this.refused = found.filter(Boolean);
    this.#chips();
    this.#showRefused();
    if (!this.refused.length) return null;
    const shown = message(
      this.refused.length > 1 ? `${this.refused.length} filters cannot be used` : "This filter cannot be used",
      "Nothing was searched.",
      "failed",
    );
    for (const one of this.refused) {
      const remove = () => this.#remove(one.condition);
      const button = element("button", { type: "button", class: "quiet", onclick: remove }, "Remove this filter");
      shown.append(element("p", { class: "refused" }, one.sentence), element("p", {}, button));
    }
    return shown;
  }

  #remove(condition) {
    if (condition) this.#toggle(condition, false);
    else this.onChange({ ...this.filters, where: "" });
  }

  /** Say by the field why the filter that was typed is wrong. */
  #showRefused() {
    const field = byId("where");
    if (!field) return; // shown as soon as the panel is there
    const wrong = this.refused.find((one) => !one.condition && one.text === this.filters.where);
    field.setAttribute("aria-invalid", String(Boolean(wrong)));
    byId("where-error").textContent = wrong?.sentence ?? "";
    if (wrong) field.closest("details").open = true;
  }

  #has(condition) {
    return this.filters.conditions.some((one) => same(one, condition));
  }

  #showEnd(field) {
    const range = this.filters.conditions.find((one) => "low" in one && one.column === field.dataset.column);
    if (field !== document.activeElement) field.value = range?.[field.dataset.end] ?? "";
  }

  /** What clips have or have not, in one group: that they have not is no choice. */
  #flags(facets) {
    if (!facets.length) return null;
    const boxes = facets.map((facet) => this.#value(facet, facet.values[0], facet.label));
    return element("fieldset", {}, element("legend", {}, "With"), element("div", { class: "values" }, boxes));
  }

  #facet(facet) {
    if (!facet.values.length) return facet.low === null || facet.low === facet.high ? null : this.#range(facet);
    const values = facet.values.map((value) => this.#value(facet, value));
    const more = values.slice(FEW_VALUES);
    return element(
      "fieldset",
      {},
      element("legend", {}, capital(facet.label)),
      element("div", { class: "values" }, values.slice(0, FEW_VALUES)),
      more.length > 0 &&
        element(
          "details",
          {},
          element("summary", {}, `${number(more.length)} more`),
          element("div", { class: "values" }, more),
        ),
    );
  }

  #value({ column, kind }, { value, clips }, label = null) {
    const box = element("input", { type: "checkbox", onchange: () => this.#toggle(box.condition, box.checked) });
    const isGroup = kind === "days" || kind === "folders";
    box.condition = isGroup ? { column, within: value, kind } : { column, value };
    return element(
      "label",
      {},
      box,
      column === "people" ? element("img", { src: faceAddress(value), alt: "", loading: "lazy" }) : null,
      element("span", { dir: "auto" }, label ?? (isGroup ? withinTold(kind, value) : shown(value))),
      element("span", { class: "amount" }, number(clips)),
    );
  }

  #range(facet) {
    const end = (name, said, limit) =>
      element("input", {
        type: "number",
        step: "any",
        placeholder: +limit.toFixed(2),
        "aria-label": `${facet.label}, ${said}`,
        "data-column": facet.column,
        "data-end": name,
        onchange: (event) => this.#setRange(facet.column, event.target.closest(".range")),
      });
    const ends = [end("low", "at least", facet.low), element("span", {}, "to"), end("high", "at most", facet.high)];
    return element(
      "fieldset",
      {},
      element("legend", {}, capital(facet.label)),
      element("div", { class: "range" }, ends),
    );
  }

  #typed() {
    const field = element("input", {
      id: "where",
      type: "text",
      placeholder: "source = 'camera' and duration_s < 60",
      autocomplete: "off",
      autocapitalize: "none",
      spellcheck: "false",
      maxlength: 4000,
      "aria-describedby": "where-error",
    });
    const apply = (event) => {
      event.preventDefault();
      this.onChange({ ...this.filters, where: field.value.trim() });
    };
    field.addEventListener("change", apply);
    return element(
      "details",
      { class: "advanced" },
      element("summary", {}, "Advanced"),
      element(
        "form",
        { class: "typed", onsubmit: apply },
        element("label", { for: "where" }, "Your own filter"),
        field,
        element("p", { id: "where-error", class: "error", role: "alert" }),
      ),
    );
  }

  #toggle(condition, on) {
    const others = this.filters.conditions.filter((one) => !same(one, condition));
    this.onChange({ ...this.filters, conditions: on ? [...others, condition] : others });
  }

  #setRange(column, fields) {
    const [low, high] = ["low", "high"].map((end) => {
      const { value, valueAsNumber } = fields.querySelector(`[data-end=${end}]`);
      return value === "" ? null : valueAsNumber;
    });
    const others = this.filters.conditions.filter((one) => !("low" in one) || one.column !== column);
    const isOpen = low === null && high === null;
    this.onChange({ ...this.filters, conditions: isOpen ? others : [...others, { column, low, high }] });
  }

  #chips() {
    const { conditions, where } = this.filters;
    const isOf = (one, condition) => (condition ? one.condition && same(one.condition, condition) : one.text === where);
    const wrong = (condition) => this.refused.find((one) => isOf(one, condition));
    const chips = conditions.map((one) => chip(this.#told(one), () => this.#remove(one), wrong(one)));
    if (where) chips.push(chip(where, () => this.#remove(null), wrong(null)));
    fill(byId("chips"), chips);
    byId("filter-count").hidden = chips.length === 0;
    byId("filter-count").textContent = String(chips.length);
  }

  #told(condition) {
    const label = this.facets.find((facet) => facet.column === condition.column)?.label ?? condition.column;
    if (isWithin(condition)) return `${label}: ${withinTold(condition.kind, condition.within)}`;
    if (isValue(condition)) return condition.value === true ? label : `${label}: ${shown(condition.value)}`;
    const { low, high } = condition;
    if (low === null) return `${label}: at most ${high}`;
    return high === null ? `${label}: at least ${low}` : `${label}: ${low} to ${high}`;
  }
}

function chip(text, remove, wrong) {
  const button = element(
    "button",
    { type: "button", onclick: remove, class: wrong ? "wrong" : null, title: wrong?.sentence ?? "Remove this filter" },
    element("span", {}, text),
    icon("close"),
  );
  button.setAttribute("aria-label", `Remove the filter ${text}`);
  return element("li", {}, button);
}

const isFlag = ({ kind, values }) => kind === "values" && values.length === 1 && values[0].value === true;

/** A filter with the server's reason for refusing it; null where it takes it. */
async function refusalOf(part, signal) {
  try {
    await browse({ where: part.text, limit: 1 }, signal);
    return null;
  } catch (error) {
    if (signal?.aborted || (error instanceof ApiError && ![400, 422].includes(error.status))) return null;
    if (!(error instanceof ApiError)) throw error;
    return { ...part, sentence: error.message };
  }
}

const WIDE = matchMedia("(min-width: 80rem)");

class FilterPlace {
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

  /** Say whether there are results, beside which the rail stands unless a reader closed it. */
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
