// The choice of a folder: a dialog that goes through the folders of the server's machine, by mouse or by keys alone.

import { ApiError, folders } from "./api.js";
import { breakable, element, fill, icon } from "./dom.js";
import { count, number } from "./format.js";

const BUSY = "Videos are being added; wait until that is done, or stop it first.";
const BEGUN = "What was begun is to be watched; go on with it, or stop it first.";
const TICKED = "Watched from when the folder is added, or the folders that were added are looked through.";
const INSIDE = ["words", "builtin"]; // what comes with the package

export class FolderChooser {
  /**
   * @param {(order: object) => Promise<void>} add adds a folder, or throws the refusal
   * @param {(order: object) => Promise<void>} again looks through the folders that were added
   * @param {() => Promise<void>} unwatch has no folder watched any more, or throws the refusal
   */
  constructor(add, again, unwatch) {
    this.add = add;
    this.unwatch = unwatch;
    this.watches = element("input", { type: "checkbox", role: "switch", onchange: () => this.#turn() });
    this.title = element("h2", { id: "folders-title" }, "Add a folder");
    this.places = element("nav", { class: "places", "aria-label": "Disks and shares" });
    this.typed = element("input", {
      type: "text",
      placeholder: "/path or ~/path",
      "aria-label": "Path of a folder",
      spellcheck: "false",
      autocomplete: "off",
      autocapitalize: "off",
    });
    const typing = element(
      "form",
      { class: "typed", onsubmit: (event) => this.#type(event) },
      this.typed,
      element("button", { type: "submit", class: "quiet small" }, "Open"),
    );
    this.from = element("div", { class: "from" }, this.places, typing);
    this.trail = element("nav", { class: "trail", "aria-label": "Where you are" });
    this.list = element("ul", { class: "folders", onkeydown: (event) => this.#walk(event) });
    this.said = element("p", { class: "calm", role: "status" });
    this.models = element("fieldset", { class: "models", hidden: true });
    this.speech = element("input", { type: "checkbox" });
    this.speechTold = element("span", { class: "calm" });
    this.hears = element(
      "label",
      { class: "watches" },
      this.speech,
      element("span", {}, "Also what is said", this.speechTold),
    );
    this.choose = element("button", { type: "button", class: "strong", onclick: () => this.#choose() });
    const look = () => {
      this.dialog.close();
      again(this.#order());
    };
    this.again = element("button", { type: "button", onclick: look });
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
    this.ofFolders = [this.from, this.trail, this.list, watches, this.said, this.choose];
    this.dialog = element(
      "dialog",
      { class: "chooser", "aria-labelledby": "folders-title" },
      element("div", { class: "head" }, this.title, close),
      this.from,
      this.trail,
      this.list,
      element("div", { class: "end" }, this.models, this.hears, watches, this.said, element("div", { class: "acts" }, this.choose, this.again)),
    );
    document.body.append(this.dialog);
  }

  /**
   * Let a person choose.
   *
   * @param {{models: object[], speech: object | null, state: string, watches: boolean}} state how adding goes
   * @param {boolean} isEmpty whether no folder was added yet
   * @param {boolean} forPictures whether only a model is chosen, for the folders that were added for their words
   */
  open({ models, speech, state, watches }, isEmpty, forPictures = false) {
    this.#offer(forPictures ? models.filter(({ name }) => name !== "words") : models, isEmpty || forPictures);
    this.#offerSpeech(speech);
    this.isWatching = state === "watching";
    this.isBusy = state === "running" || state === "pausing";
    this.isToWatch = watches;
    this.watches.checked = watches;
    this.again.hidden = isEmpty;
    this.title.textContent = forPictures ? "Search pictures too" : "Add a folder";
    for (const part of this.ofFolders) part.hidden = forPictures;
    this.again.className = forPictures ? "strong" : "quiet";
    const looks = forPictures ? "Look at the pictures" : "Look again at the folders that were added";
    fill(this.again, icon("retry"), looks);
    this.dialog.showModal();
    if (forPictures) this.models.querySelector("input:checked").focus();
    else this.#go("");
  }

  #offer(models, isFirst) {
    this.models.hidden = models.length === 0;
    const first = isFirst ? models[0]?.name : "words"; // as it is searched now
    const choice = ({ name, label, about, download_bytes: bytes }) => {
      const told = `${about} ${toDownload(bytes, INSIDE.includes(name))}`;
      const input = element("input", { type: "radio", name: "model", value: name, checked: name === first });
      return element("label", {}, input, element("span", {}, label, element("span", { class: "calm" }, told)));
    };
    fill(this.models, element("legend", {}, "How the videos are looked at"), models.map(choice));
  }

  #offerSpeech(speech) {
    this.hears.hidden = !speech;
    if (!speech) return;
    const { minutes_an_hour: minutes, download_bytes: bytes, hindrance } = speech;
    this.speech.disabled = hindrance !== "";
    this.speech.checked &&= !hindrance;
    this.speechTold.textContent =
      hindrance || `About ${number(minutes)} min for an hour of speech. ${toDownload(bytes, false)}`;
  }

  /** What the boxes that are ticked say. */
  #order() {
    const model = this.models.hidden ? null : this.models.querySelector("input:checked").value;
    const speech = this.speech.checked && !this.hears.hidden;
    return { action: this.watches.checked ? "watch" : "start", model, speech };
  }

  #type(event) {
    event.preventDefault();
    if (this.typed.value.trim()) this.#go(this.typed.value.trim());
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
    const step = ({ name, path }, attributes) =>
      element("button", { type: "button", onclick: () => this.#go(path), ...attributes }, breakable(name));
    const at = found.trail.length - 1;
    fill(
      this.places,
      found.places.map((place) =>
        step(place, { class: "quiet small", title: place.path, "aria-pressed": String(place.path === found.trail[0].path) }),
      ),
    );
    fill(
      this.trail,
      found.trail.map((one, number) => step(one, { "aria-current": number === at ? "true" : null })),
    );
    fill(
      this.list,
      found.folders.map((folder) => this.#folder(folder)),
    );
    this.said.textContent = sentence(found);
    this.choose.disabled = found.hindrance !== "";
    const chosen = at > 0 ? `Add “${found.name}” (${videos(found)})` : "Choose a folder";
    fill(this.choose, icon("add"), chosen);
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
        element("span", { class: "name", dir: "auto" }, breakable(folder.name), this.#leadsTo(folder)),
        element("span", { class: "amount" }, videos(folder)),
      ),
    );
  }

  /** Where a link leads to; nothing of a folder that lies here. */
  #leadsTo({ path }) {
    const here = path.startsWith(this.found.path) && !/[/\\]./.test(path.slice(this.found.path.length + 1));
    return here ? null : element("span", { class: "calm" }, " → ", breakable(path));
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
    const above = this.found?.trail.at(-2);
    if (above) this.#go(above.path);
  }

  async #choose() {
    this.choose.disabled = true;
    try {
      await this.add({ ...this.#order(), folder: this.found.path });
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

const videos = ({ videos: amount, more }) =>
  more ? (amount ? `${number(amount)} videos or more` : "not counted") : amount ? count(amount, "video") : "no video";

function sentence({ hindrance, folders: inside, left_out: leftOut }) {
  const parts = [hindrance || (inside.length ? "" : "No further folders here.")];
  if (leftOut) parts.push(`Left out: ${count(leftOut, "folder")} of the system, hidden, or that cannot be opened.`);
  return parts.filter(Boolean).join(" ");
}

function toDownload(bytes, isInside) {
  if (bytes === 0) return isInside ? "Nothing to download." : "On this machine.";
  return bytes === null ? "To download once; its size is not known." : `${size(bytes)} to download once.`;
}

/** 430 MB, 1.5 GB. */
export const size = (bytes) => (bytes < 1e9 ? `${number(bytes / 1e6)} MB` : `${number(bytes / 1e9, 1)} GB`);
