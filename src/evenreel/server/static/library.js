// The library view: what is indexed, what is true of every search, what was skipped and why, and trying that again.

import { ApiError, files, pause, retry, retryState, stats } from "./api.js";
import { announce, breakable, byId, element, fill, icon, still } from "./dom.js";
import { capital, count, dayTold, length, number, size, span } from "./format.js";
import { failure } from "./results.js";

const PAGE_FILES = 50;
const POLL_S = 1;
const TYPING_MS = 300;
const STATES = { "": "All", indexed: "Indexed", set_aside: "Skipped", missing: "Missing" };
const COLUMNS = { name: "Name", length: "Length", size: "Size", date: "Date" };

/**
 * @typedef {object} Wishes
 * @property {(place: Partial<import("./address.js").Place>, how?: {replace?: boolean}) => void} go
 * @property {(clipId: string) => string} address
 * @property {(clipId: string) => void} open
 */

export class LibraryView {
  /** @param {Wishes} wishes */
  constructor(wishes) {
    this.wishes = wishes;
    this.key = null;
    this.totals = element("section", { class: "holdings", "aria-label": "Totals" });
    this.notices = element("ul", { class: "notices", "aria-label": "Notices" });
    this.aside = element("section", { class: "aside", "aria-label": "Skipped files", hidden: true });
    this.list = element("section", { class: "files", "aria-label": "Files" });
    this.heads = Object.entries(COLUMNS).map(([column, text]) => this.#head(column, text));
    this.rows = element("tbody", {});
    this.table = element("table", {}, element("thead", {}, element("tr", {}, this.heads)), this.rows);
    this.field = this.#nameField();
    this.states = this.#stateChoice();
    const tools = element(
      "form",
      { class: "tools", onsubmit: (event) => event.preventDefault() },
      this.states,
      this.field,
    );
    const title = element("h1", { tabindex: "-1" }, "Library");
    const acts = element("div", { id: "library-acts" });
    fill(byId("library-view"), element("header", {}, title, acts), this.totals, this.notices, this.aside, tools, this.list);
  }

  /** @param {import("./address.js").Place} place */
  show(place) {
    const key = JSON.stringify([place.state, place.text, place.sort, place.page]);
    if (key === this.key) return;
    if (this.key === null) this.#count();
    this.key = key;
    this.place = place;
    for (const choice of this.states.querySelectorAll("input")) choice.checked = choice.value === place.state;
    const input = this.field.querySelector("input");
    if (input !== document.activeElement) input.value = place.text;
    for (const head of this.heads) this.#showSort(head, place.sort);
    this.#list(place);
  }

  /** Count and list again, now or when it is shown next. */
  again() {
    if (this.key === null || !this.place) return;
    if (byId("library-view").hidden) this.key = null;
    else this.#refresh();
  }

  #refresh() {
    this.#count();
    this.#list(this.place);
  }

  async #count() {
    try {
      const held = await stats();
      fill(this.totals, totals(held));
      fill(
        this.notices,
        held.notices.map((one) => element("li", {}, one)),
      );
      this.notices.hidden = !held.notices.length;
      this.#showAside(held.set_aside);
    } catch (error) {
      this.#fail(this.totals, error);
    }
  }

  async #list({ state, text, sort, page }) {
    this.request?.abort();
    const request = (this.request = new AbortController());
    const wanted = { state, text: text.trim(), order: sort, limit: PAGE_FILES, offset: (page - 1) * PAGE_FILES };
    this.list.setAttribute("aria-busy", "true");
    try {
      this.#showFiles(await files(wanted, request.signal), page);
    } catch (error) {
      if (!request.signal.aborted) this.#fail(this.list, error);
    }
    if (!request.signal.aborted) this.list.removeAttribute("aria-busy");
  }

  #fail(section, error) {
    if (!(error instanceof ApiError)) throw error;
    fill(
      section,
      failure(error, () => this.#refresh()),
    );
  }

  #showFiles({ total, files: found }, page) {
    const first = (page - 1) * PAGE_FILES;
    const range =
      found.length && total > PAGE_FILES
        ? `${number(first + 1)} to ${number(first + found.length)} of ${count(total, "file")}`
        : count(total, "file");
    announce(range);
    fill(
      this.rows,
      found.map((file) => this.#file(file)),
    );
    const said = element("p", { class: "calm" }, total ? range : "No file matches.");
    const pages = total > PAGE_FILES ? this.#pages(page, Math.ceil(total / PAGE_FILES)) : null;
    if (this.table.isConnected) {
      this.list.querySelector(".calm").replaceWith(said); // the focus stays in the table's head
      this.list.querySelector(".pages")?.remove();
      if (pages) this.list.append(pages);
    } else fill(this.list, said, this.table, pages);
    this.table.hidden = !found.length;
  }

  /** The head of a column: a button that sorts by it, and turns the order when it is pressed again. */
  #head(column, text) {
    const sort = () => this.wishes.go({ sort: this.place.sort === column ? `-${column}` : column, page: 1 });
    const arrow = element("span", { "aria-hidden": "true" });
    const button = element("button", { type: "button", onclick: sort }, text, arrow);
    return element("th", { scope: "col", class: column, "data-column": column }, button);
  }

  #showSort(head, sort) {
    const { column } = head.dataset;
    const order = { [column]: "ascending", [`-${column}`]: "descending" }[sort];
    if (order) head.setAttribute("aria-sort", order);
    else head.removeAttribute("aria-sort");
    head.querySelector("span").textContent = { ascending: " ▲", descending: " ▼" }[order] ?? "";
  }

  #file(file) {
    const { state } = file;
    const badge = state === "indexed" ? null : element("span", { class: `badge ${state}` }, STATES[state]);
    const folder = file.folder ? element("p", { class: "folder" }, breakable(file.folder)) : null;
    const told = element("div", {}, this.#name(file), badge, folder, file.sentence ? why(file) : null);
    return element(
      "tr",
      { class: "file" },
      element("th", { scope: "row" }, element("div", { class: "what" }, still(file.still), told)),
      element("td", { class: "length" }, file.duration_s === null ? "" : length(file.duration_s)),
      element("td", { class: "size" }, size(file.size_bytes)),
      element("td", { class: "date" }, file.day === null ? "" : dayTold(file.day)),
    );
  }

  #name({ name, clip_id: clipId, state }) {
    if (!clipId || state !== "indexed") return element("span", { class: "name", dir: "auto" }, breakable(name));
    const open = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.wishes.open(clipId);
    };
    return element(
      "span",
      { class: "name", "data-clip": clipId, dir: "auto" },
      element("a", { href: this.wishes.address(clipId), onclick: open }, breakable(name)),
    );
  }

  #pages(page, last) {
    const to = (target, text) =>
      element(
        "button",
        { type: "button", class: "quiet", disabled: target < 1 || target > last, onclick: () => this.#turn(target) },
        text,
      );
    return element(
      "nav",
      { class: "pages", "aria-label": "Pages" },
      to(page - 1, "Previous"),
      `${number(page)} of ${number(last)}`,
      to(page + 1, "Next"),
    );
  }

  #turn(page) {
    this.wishes.go({ page });
    byId("library-view").querySelector("h1").focus();
    scrollTo({ top: 0 });
  }

  #stateChoice() {
    const choose = (state) => () => this.wishes.go({ state, page: 1 });
    const choice = ([state, text]) =>
      element(
        "label",
        {},
        element("input", { type: "radio", name: "state", value: state, onchange: choose(state) }),
        element("span", {}, text),
      );
    return element(
      "fieldset",
      { class: "states" },
      element("legend", { class: "unseen" }, "State"),
      Object.entries(STATES).map(choice),
    );
  }

  #nameField() {
    let timer = 0;
    const typed = ({ target }) => {
      clearTimeout(timer);
      timer = setTimeout(() => this.wishes.go({ text: target.value, page: 1 }, { replace: true }), TYPING_MS);
    };
    const input = element("input", {
      type: "search",
      placeholder: "Name or folder",
      "aria-label": "Name or folder of the files",
      oninput: typed,
      autocomplete: "off",
      spellcheck: "false",
      maxlength: 400,
    });
    return element("div", { class: "by-name" }, icon("search"), input);
  }

  #showAside(amount) {
    this.aside.hidden = amount === 0 && !this.aside.textContent;
    this.aside.querySelector("button")?.remove();
    if (amount === 0) return;
    const button = element(
      "button",
      { type: "button", class: "quiet", onclick: () => this.#retry(button, said, retry) },
      icon("retry"),
      "Try skipped files again",
    );
    const said = element("p", { class: "calm", role: "status" }, `${count(amount, "file")} skipped: not indexed.`);
    fill(this.aside, said, button);
    this.#resume(button, said);
  }

  /** Follow a run that was started before this page was. */
  async #resume(button, said) {
    const { state } = await retryState().catch(() => ({ state: "unknown" }));
    if (state === "running") this.#retry(button, said, retryState);
  }

  async #retry(button, said, start) {
    button.disabled = true;
    try {
      let state = await start();
      while (state.state === "running") {
        said.textContent = state.sentence;
        await pause(POLL_S);
        state = await retryState();
      }
      await this.#count();
      this.#list(this.place);
      this.aside.querySelector("[role=status]").textContent = state.sentence;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      said.textContent = error.message;
      button.disabled = false;
    }
  }
}

/** The sentence, with the code of its reason where it does not begin with that. */
function why({ reason, sentence }) {
  const told = sentence.replace(/ \(--[^()]*\)$/, ""); // how it is changed in a terminal
  const code = reason && !sentence.startsWith(reason) ? element("code", {}, reason) : null;
  return element("p", { class: "why" }, code, " ", told);
}

function totals(held) {
  const model = held.model?.replace(/^.*\/|@[0-9a-f]{40}$/g, "");
  const made = [model && `model ${model}`, held.sampling && `sampled ${held.sampling}`].filter(Boolean).join(", ");
  const rows = [
    ["Clips", number(held.clips)],
    ["Files", number(held.files)],
    ["Length", span(held.hours)],
    ["Moments", number(held.moments)],
    ["Words on screen", number(held.signs)],
    ["Skipped", number(held.set_aside)],
    ["Missing", number(held.missing)],
  ];
  const row = ([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  return [element("p", { class: "calm", title: held.model }, held.name, made ? `. ${capital(made)}.` : ""), element("dl", {}, rows.map(row))];
}
