// The choice of a folder: a dialog that goes through the folders of the server's home, by mouse or by keys alone.

import { ApiError, folders } from "./api.js";
import { breakable, element, fill, icon } from "./dom.js";
import { count, number } from "./format.js";

const BUSY = "Videos are being added; wait until that is done, or stop it first.";
const BEGUN = "What was begun is to be watched; go on with it, or stop it first.";
const TICKED = "Watched from when the folder is added, or the folders that were added are looked through.";

export class FolderChooser {
  /**
   * @param {(folder: string, model: string | null, watch: boolean) => Promise<void>} add adds a folder, or throws the refusal
   * @param {(watch: boolean) => Promise<void>} again looks through the folders that were added
   * @param {() => Promise<void>} unwatch has no folder watched any more, or throws the refusal
   */
  constructor(add, again, unwatch) {
    this.add = add;
    this.unwatch = unwatch;
    this.watches = element("input", { type: "checkbox", role: "switch", onchange: () => this.#turn() });
    this.title = element("h2", { id: "folders-title" }, "Add a folder");
    this.trail = element("nav", { class: "trail", "aria-label": "Where you are" });
    this.list = element("ul", { class: "folders", onkeydown: (event) => this.#walk(event) });
    this.said = element("p", { class: "calm", role: "status" });
    this.models = element("fieldset", { class: "models", hidden: true });
    this.choose = element("button", { type: "button", class: "strong", onclick: () => this.#choose() });
    const look = () => {
      this.dialog.close();
      again(this.watches.checked);
    };
    this.again = element(
      "button",
      { type: "button", class: "quiet", onclick: look },
      icon("retry"),
      "Look for new videos in folders that were added",
    );
    const close = element(
      "button",
      { type: "button", class: "plain", "aria-label": "Close", onclick: () => this.dialog.close() },
      icon("close"),
    );
    const watches = element(
      "label",
      { class: "watches" },
      this.watches,
      "Watch the folders: new videos are added by themselves",
    );
    this.dialog = element(
      "dialog",
      { class: "chooser", "aria-labelledby": "folders-title" },
      element("div", { class: "head" }, this.title, close),
      this.trail,
      this.list,
      element("div", { class: "end" }, this.models, watches, this.said, element("div", { class: "acts" }, this.choose, this.again)),
    );
    document.body.append(this.dialog);
  }

  /**
   * Let a person choose.
   *
   * @param {{models: {name: string, label: string, about: string}[], state: string, watches: boolean}} state how adding
   * goes
   * @param {boolean} isEmpty whether no folder was added yet
   */
  open({ models, state, watches }, isEmpty) {
    this.#offer(models);
    this.isWatching = state === "watching";
    this.isBusy = state === "running" || state === "pausing";
    this.isToWatch = watches;
    this.watches.checked = watches;
    this.again.hidden = isEmpty;
    this.dialog.showModal();
    this.#go("");
  }

  #offer(models) {
    this.models.hidden = models.length === 0;
    const choice = ({ name, label, about }, number) =>
      element(
        "label",
        {},
        element("input", { type: "radio", name: "model", value: name, checked: number === 0 }),
        element("span", {}, label, element("span", { class: "calm" }, about)),
      );
    fill(this.models, element("legend", {}, "How the videos are looked at"), models.map(choice));
  }

  /** What is ticked holds with the next button; that nothing is watched any more holds at once, and breaks off no run. */
  async #turn() {
    if (this.watches.checked) {
      if (!this.isToWatch) this.said.textContent = TICKED;
    } else if (this.isWatching) {
      try {
        await this.unwatch();
        this.isWatching = this.isToWatch = false;
      } catch (error) {
        this.watches.checked = true;
        this.#refuse(error);
      }
    } else if (this.isToWatch) {
      this.watches.checked = true;
      this.said.textContent = this.isBusy ? BUSY : BEGUN;
    } else this.said.textContent = "";
  }

  async #go(inside) {
    this.request?.abort();
    const request = (this.request = new AbortController());
    this.list.setAttribute("aria-busy", "true");
    try {
      this.#show(await folders(inside, request.signal));
    } catch (error) {
      if (request.signal.aborted) return;
      this.#refuse(error);
    }
    if (!request.signal.aborted) this.list.removeAttribute("aria-busy");
  }

  #show(found) {
    this.found = found;
    fill(this.trail, trail(found.path, (path) => this.#go(path)));
    fill(
      this.list,
      found.folders.map((folder) => this.#folder(folder)),
    );
    this.said.textContent = sentence(found);
    this.choose.disabled = found.added || !(found.videos || found.more);
    fill(this.choose, icon("add"), `Add “${found.name}” (${videos(found)})`);
    (this.list.querySelector("button") ?? (this.choose.disabled ? this.trail.lastChild : this.choose)).focus();
  }

  #folder(folder) {
    return element(
      "li",
      {},
      element(
        "button",
        { type: "button", class: folder.videos ? "" : "without", onclick: () => this.#go(folder.path) },
        icon("folder"),
        element("span", { class: "name", dir: "auto" }, breakable(folder.name)),
        element("span", { class: "amount" }, videos(folder)),
      ),
    );
  }

  /** Arrows go through the folders, Backspace goes to the one above. */
  #walk(event) {
    const buttons = [...this.list.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to !== undefined) buttons[Math.min(buttons.length - 1, Math.max(0, to))]?.focus();
    else if (event.key === "ArrowRight") document.activeElement.click();
    else if (event.key === "ArrowLeft" || event.key === "Backspace") this.#up();
    else return;
    event.preventDefault();
  }

  #up() {
    if (this.found?.path) this.#go(this.found.path.split("/").slice(0, -1).join("/"));
  }

  async #choose() {
    this.choose.disabled = true;
    const model = this.models.hidden ? null : this.models.querySelector("input:checked").value;
    try {
      await this.add(this.found.path, model, this.watches.checked);
      this.dialog.close();
    } catch (error) {
      this.choose.disabled = false;
      this.#refuse(error);
    }
  }

  #refuse(error) {
    if (!(error instanceof ApiError)) throw error;
    this.said.textContent = error.message;
  }
}

function trail(path, go) {
  const parts = path ? path.split("/") : [];
  const steps = [["Home", ""], ...parts.map((name, at) => [name, parts.slice(0, at + 1).join("/")])];
  return steps.map(([name, to], at) =>
    element(
      "button",
      { type: "button", "aria-current": at === steps.length - 1 ? "true" : null, onclick: () => go(to) },
      breakable(name),
    ),
  );
}

const videos = ({ videos: amount, more }) =>
  more ? (amount ? `${number(amount)} videos or more` : "not counted") : amount ? count(amount, "video") : "no video";

function sentence({ added, videos: amount, more, folders: inside, left_out: leftOut }) {
  const parts = [];
  if (added) parts.push("This folder is in the library already.");
  else if (!amount && !more) parts.push("There is no video here.");
  else if (!inside.length) parts.push("No further folders here.");
  if (leftOut) parts.push(`Left out: ${count(leftOut, "folder")} that cannot be opened or that a link leads to elsewhere.`);
  return parts.join(" ");
}
