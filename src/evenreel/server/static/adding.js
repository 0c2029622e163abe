// Folders that are added from the page: an invitation where the library is empty, how a run goes, and its pause. All of
// it is there only for whoever sits at the machine of the server; the others are refused by the first request.

import { ApiError, indexing, orderIndexing, patiently, pause } from "./api.js";
import { byId, element, fill, icon } from "./dom.js";
import { FolderChooser, size } from "./folders.js";
import { count, number } from "./format.js";

const POLL_S = 1;
const WATCH_S = 3;
const MINUTE_S = 60;
const HOUR_S = 3600;

/**
 * @typedef {object} Told what the page is told
 * @property {() => void} grew more of the videos can be searched
 * @property {() => void} ended the run has ended
 */

export class Adding {
  /** @param {Told} told */
  constructor(told) {
    this.told = told;
    this.root = byId("adding");
    this.isEmpty = false;
    this.state = null;
    this.following = false;
    this.open = () => this.chooser.open(this.state, this.isEmpty);
    this.openForPictures = () => this.chooser.open(this.state, this.isEmpty, !this.isEmpty);
    this.chooser = new FolderChooser(
      (order) => this.#order(order),
      (order) => this.#press(order),
      () => this.#order({ action: "stop" }),
    );
    this.#meet();
  }

  /** What the library holds. */
  know({ clips, files }) {
    this.isEmpty = clips === 0 && files === 0;
    this.#show();
  }

  /** What a run has done was seen, once something else is asked for. */
  seen() {
    if (this.state?.state === "done") this.#take({ ...this.state, state: "idle", sentence: "" });
  }

  async #meet() {
    try {
      const state = await indexing();
      this.#take(state.state === "done" ? { ...state, state: "idle", sentence: "" } : state);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // refused: whoever looks sits elsewhere
    }
  }

  #take(state) {
    const before = this.state;
    this.state = state;
    if (before && (before.done !== state.done || before.stage !== state.stage)) this.told.grew();
    if (before && isBusy(before) && !isBusy(state)) this.told.ended();
    this.#show();
    if (goesOn(state)) this.#follow();
  }

  async #follow() {
    if (this.following) return;
    this.following = true;
    try {
      while (goesOn(this.state)) {
        await pause(isBusy(this.state) ? POLL_S : WATCH_S);
        this.#take(await patiently(() => indexing()));
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#take({ ...this.state, state: "failed", sentence: error.message });
    } finally {
      this.following = false;
    }
  }

  async #order(order) {
    this.#take(await orderIndexing(order));
    this.root.querySelector("h2")?.focus();
  }

  /** Give an order by a button; a refusal is said in the panel. */
  async #press(order) {
    try {
      await this.#order(order);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#take({ ...this.state, sentence: error.message });
    }
  }

  #show() {
    const { state } = this;
    if (!state?.can_add) return;
    this.#showButton();
    this.#showActs();
    const isQuiet = state.state === "idle" && !state.sentence;
    const shown = isQuiet ? (this.isEmpty ? "invitation" : "") : state.words_only ? "failed no-model" : state.state;
    if (shown !== this.shown) this.#lay(shown);
    if (this.panel) this.#tell();
  }

  #showButton() {
    if (byId("add-folder").firstChild) return;
    const button = element(
      "button",
      { type: "button", class: "quiet add-folder", onclick: this.open, title: "Add a folder of videos" },
      icon("add"),
      element("span", {}, "Add a folder"),
    );
    fill(byId("add-folder"), button);
  }

  /** In the library view: look for new videos, and search pictures where only words are searched yet. */
  #showActs() {
    const { state, models, watches } = this.state;
    const isFree = !this.isEmpty && !watches && (state === "idle" || state === "done");
    const key = isFree ? `free ${models.length}` : "";
    if (key === this.acts) return;
    this.acts = key;
    const again = () => this.#press({ action: "start", model: models.length ? "words" : null });
    const button = (onclick, name, word) =>
      element("button", { type: "button", class: "quiet", onclick }, icon(name), word);
    fill(
      byId("library-acts"),
      isFree ? button(again, "retry", "Look for new videos") : null,
      isFree && models.length ? button(this.openForPictures, "add", "Search pictures too") : null,
    );
  }

  /** What has pictures searched too; null where they are, or whoever looks may not add. */
  get addPictures() {
    return this.state?.can_add && this.state.models.length && !this.isEmpty ? this.openForPictures : null;
  }

  #lay(shown) {
    const focused = this.root.contains(document.activeElement);
    this.shown = shown;
    this.panel = null;
    if (shown === "invitation") fill(this.root, this.#invitation());
    else if (shown) fill(this.root, (this.panel = this.#panel(shown)));
    else fill(this.root);
    if (focused) (this.root.querySelector("h2") ?? byId("main")).focus({ preventScroll: true });
  }

  #invitation() {
    return element(
      "section",
      { class: "invitation", "aria-label": "First folder" },
      element("h2", { tabindex: "-1" }, "Which videos do you want to search?"),
      element("p", {}, "Choose a folder. The videos stay where they are and as they are; nothing is sent anywhere."),
      element(
        "button",
        { type: "button", class: "strong", onclick: this.open },
        icon("add"),
        "Add a folder of videos",
      ),
    );
  }

  #panel(shown) {
    const button = (onclick, name, word, kind = "quiet") =>
      element("button", { type: "button", class: kind, onclick }, name && icon(name), word);
    const act = (action, name, word) => button(() => this.#press({ action }), name, word);
    const words = () => this.#press({ action: "resume", model: "words" });
    const dismiss = act("stop", "close", "Dismiss");
    const buttons = {
      running: () => [act("pause", "pause", "Pause"), act("stop", "close", "Stop")],
      pausing: () => [],
      paused: () => [act("resume", "play", "Go on"), act("stop", "close", "Stop")],
      failed: () => [act("resume", "retry", "Try again"), dismiss],
      "failed no-model": () => [
        act("resume", "retry", "Try again"),
        button(words, null, "Search by words only for now"),
        dismiss,
      ],
      watching: () => [act("stop", "close", "Stop watching")],
      done: () => [this.state.models.length ? button(this.openForPictures, "add", "Search pictures too") : null, dismiss],
      idle: () => [dismiss],
    }[shown]();
    return element(
      "section",
      { class: `run ${shown}`, "aria-label": "Adding videos" },
      element("h2", { tabindex: "-1" }),
      shown === "running" ? element("progress") : null,
      element("p", { class: "figures" }),
      element("p", { class: "calm latest", dir: "auto" }),
      shown.startsWith("failed")
        ? element("details", { class: "details" }, element("summary", {}, "Details"), element("pre"))
        : null,
      element("p", { class: "unseen", role: "status" }),
      element("div", { class: "acts" }, buttons),
    );
  }

  #tell() {
    const { state, panel } = this;
    panel.querySelector("h2").textContent = title(state);
    panel.querySelector(".figures").textContent = told(state);
    panel.querySelector(".latest").textContent = state.state === "running" && state.file ? state.file : "";
    panel.querySelector("[role=status]").textContent = state.state === "running" ? "" : `${title(state)}. ${state.sentence}`;
    const bar = panel.querySelector("progress");
    const details = panel.querySelector("details");
    if (details) {
      details.hidden = !state.details;
      details.querySelector("pre").textContent = state.details ?? "";
    }
    if (!bar) return;
    bar.setAttribute("aria-label", state.download ? "Downloaded so far" : "Done so far");
    showShare(bar, share(state));
  }
}

const goesOn = (state) => isBusy(state) || state.state === "watching";

const isBusy = ({ state }) => state === "running" || state === "pausing";

function title({ state, folders }) {
  const what = folders.length ? folders.join(", ") : "videos";
  return {
    running: `Adding ${what}`,
    pausing: `Ending; what is finished is kept: ${what}`,
    paused: `Paused: ${what}`,
    watching: `Watching ${what}`,
    failed: `${what} could not be added`,
    done: `Added ${what}`,
    idle: "Adding videos",
  }[state];
}

function told(state) {
  if (state.sentence) return state.sentence;
  if (state.state === "watching") return "New videos there are added by themselves.";
  return isBusy(state) ? figures(state) : "";
}

/** How far the stage is, how fast, and how long it still takes. */
function figures(state) {
  const { stage, done, total, per_minute: perMinute, remaining_s: left, video_done_s, video_s, speed, download } = state;
  const parts = [];
  if (download) {
    const whole = download.total_bytes ? ` of ${size(download.total_bytes)}` : "";
    parts.push(`${size(download.done_bytes)}${whole}`);
  }
  if (video_s) parts.push(`${long(video_done_s)} of ${long(video_s)} of video`);
  if (total) parts.push(`${number(done)} of ${count(total, isReading(stage) ? "video" : "step")}`);
  if (speed) parts.push(`${number(speed, speed < 10 ? 1 : 0)} times as fast as they play`);
  else if (perMinute && isReading(stage)) parts.push(`${number(perMinute, perMinute < 10 ? 1 : 0)} a minute`);
  if (left !== null) parts.push(`about ${long(left)} left`);
  const told = parts.length ? `: ${parts.join(" · ")}` : "…";
  return `${stage.charAt(0).toUpperCase()}${stage.slice(1)}${told}`;
}

const isReading = (stage) => /video|picture|word/.test(stage);

function share({ download, share: done, total }) {
  if (download) return download.total_bytes ? download.done_bytes / download.total_bytes : null;
  return done || total ? done : null;
}

function showShare(bar, part) {
  if (part === null) bar.removeAttribute("value");
  else bar.value = Math.min(1, part);
}

/** 40 s, 12 min, 3.4 h. */
function long(seconds) {
  if (seconds < MINUTE_S) return `${number(Math.max(1, seconds))} s`;
  if (seconds < HOUR_S) return `${number(seconds / MINUTE_S)} min`;
  return `${number(seconds / HOUR_S, 1)} h`;
}
