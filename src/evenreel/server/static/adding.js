// Folders that are added from the page: an invitation where the library is empty, how a run goes, and its pause. All of
// it is there only for whoever sits at the machine of the server; the others are refused by the first request.

import { ApiError, indexing, orderIndexing, patiently, pause } from "./api.js";
import { byId, element, fill, icon } from "./dom.js";
import { FolderChooser } from "./folders.js";
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
    this.chooser = new FolderChooser(
      (folder, model, watch) => this.#order({ action: watch ? "watch" : "start", folder, model }),
      (watch) => this.#press({ action: watch ? "watch" : "start" }),
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
    const shown = state.state === "idle" && !state.sentence ? (this.isEmpty ? "invitation" : "") : state.state;
    if (shown !== this.shown) this.#lay(shown);
    if (this.panel) this.#tell();
  }

  #showButton() {
    if (byId("add-folder").firstChild) return;
    const open = () => this.chooser.open(this.state, this.isEmpty);
    const button = element(
      "button",
      { type: "button", class: "quiet add-folder", onclick: open, title: "Add a folder of videos" },
      icon("add"),
      element("span", {}, "Add a folder"),
    );
    fill(byId("add-folder"), button);
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
        { type: "button", class: "strong", onclick: () => this.chooser.open(this.state, true) },
        icon("add"),
        "Add a folder of videos",
      ),
    );
  }

  #panel(shown) {
    const act = (action, name, word) =>
      element(
        "button",
        { type: "button", class: "quiet", onclick: () => this.#press({ action }) },
        name && icon(name),
        word,
      );
    const buttons = {
      running: () => [act("pause", "pause", "Pause"), act("stop", "close", "Stop")],
      pausing: () => [],
      paused: () => [act("resume", "play", "Go on"), act("stop", "close", "Stop")],
      failed: () => [act("resume", "retry", "Try again"), act("stop", "close", "Dismiss")],
      watching: () => [act("stop", "close", "Stop watching")],
      done: () => [act("stop", "close", "Dismiss")],
      idle: () => [act("stop", "close", "Dismiss")],
    }[shown]();
    return element(
      "section",
      { class: `run ${shown}`, "aria-label": "Adding videos" },
      element("h2", { tabindex: "-1" }),
      shown === "running" ? element("progress", { "aria-label": "Done so far" }) : null,
      element("p", { class: "figures" }),
      element("p", { class: "calm latest", dir: "auto" }),
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
    if (bar) showShare(bar, share(state));
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
function figures({ stage, done, total, per_minute: perMinute, remaining_s: left, video_done_s, video_s, speed }) {
  const parts = [];
  if (video_s) parts.push(`${long(video_done_s)} of ${long(video_s)} of video`);
  if (total) parts.push(`${number(done)} of ${count(total, isReading(stage) ? "video" : "step")}`);
  if (speed) parts.push(`${number(speed, speed < 10 ? 1 : 0)} times as fast as they play`);
  else if (perMinute && isReading(stage)) parts.push(`${number(perMinute, perMinute < 10 ? 1 : 0)} a minute`);
  if (left !== null) parts.push(`about ${long(left)} left`);
  const told = parts.length ? `: ${parts.join(" · ")}` : "…";
  return `${stage.charAt(0).toUpperCase()}${stage.slice(1)}${told}`;
}

const isReading = (stage) => /video|picture|word/.test(stage);

function share({ done, total, video_done_s: videoDone, video_s: video }) {
  if (video) return videoDone / video;
  return total ? done / total : null;
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
