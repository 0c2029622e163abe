// The dialog that plays a clip: the video, its timeline, and beside it what is known of the clip.

import { about } from "./about.js";
import { ApiError, clip as fetchClip, filePlace, openFolder, transcripts } from "./api.js";
import { breakable, byId, element, fill, hasText, icon } from "./dom.js";
import { Playback } from "./playback.js";
import { showPlayerActions } from "./selection.js";
import { Timeline } from "./timeline.js";
import { Transcript } from "./transcript.js";

const STEP_S = 5;
const SHORT_CLIP_S = 60;
const SHORT_STEP_S = 1;
const SAME_MOMENT_S = 0.25;
const COPIED_MS = 2000;
const SPEEDS = [0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 4];
const USUAL_FPS = 25; // of a clip whose file does not say
const TELL_MS = 250; // browsers refuse an address that changes with every step of a slider

/**
 * @typedef {object} Wishes what the player asks of the page
 * @property {() => void} close
 * @property {(time: number) => void} moved
 * @property {((clipId: string, time: number) => void) | null} like
 * @property {boolean} opensFolders whether the server shows files in the file manager of this machine
 */

export class Player {
  /** @param {Wishes} wishes */
  constructor(wishes) {
    this.wishes = wishes;
    this.dialog = byId("player");
    this.clipId = null;
    this.clip = null;
    this.hit = null;
    this.timeline = new Timeline((time) => this.seek(time));
    this.transcript = new Transcript((time) => this.seek(time));
    this.fileRow = new FileRow();
    this.spoken = [];
    this.playback = new Playback(byId("video"), {
      moved: (time) => this.#shown(time),
      changed: () => this.#changed(),
      noted: (sentence) => (byId("player-note").textContent = sentence),
      waiting: (sentence) => this.#waiting(sentence),
      pictured: (address) => this.#pictured(address),
    });
    this.#listen();
  }

  /**
   * Open a clip at a time.
   *
   * @param {{hit: import("./api.js").FoundClip | null, run: boolean}} how `hit`: why it was found
   */
  async open(clipId, time, { hit, run }) {
    this.#reset(clipId, hit);
    byId("player-like").hidden = !this.wishes.like;
    if (!this.dialog.open) this.dialog.showModal();
    byId("play").focus();
    const request = (this.request = new AbortController());
    try {
      [this.clip, this.spoken] = await Promise.all([
        fetchClip(clipId, request.signal),
        transcripts(clipId, request.signal),
      ]);
    } catch (error) {
      if (!request.signal.aborted) this.#refused(error);
      return;
    }
    if (request.signal.aborted) return;
    byId("player-title").textContent = this.clip.name;
    this.fileRow.show(this.clip, this.wishes.opensFolders);
    showPlayerActions(this.#stretch(time));
    this.playback.open(this.clip, time, run);
    this.#describe();
    this.#shown(time);
  }

  /** Add why the clip was found, where that became known after it was opened. */
  explain(hit) {
    this.hit = hit;
    if (!this.clip) return;
    this.#describe();
    showPlayerActions(this.#stretch(this.playback.time));
  }

  /** Close; the page says where the focus goes. */
  close() {
    this.request?.abort();
    this.playback.close();
    this.clipId = this.clip = this.hit = null;
    if (document.fullscreenElement) document.exitFullscreen();
    this.dialog.close();
  }

  /** Go to a time of the clip. */
  seek(time) {
    this.playback.seek(time);
    this.#tellMovedSoon();
  }

  #reset(clipId, hit) {
    this.request?.abort();
    this.playback.close();
    this.dialog.classList.remove("refused");
    this.clipId = clipId;
    this.clip = null;
    this.hit = hit;
    fill(byId("player-title"), breakable(hit?.name ?? "Clip"));
    fill(byId("about"));
    fill(byId("player-file"));
    this.spoken = [];
    this.transcript.show([], []);
    this.timeline.show(hit?.duration_s ?? 0, [], [], [], []);
    this.timeline.move(0);
  }

  #refused(error) {
    if (!(error instanceof ApiError)) throw error;
    this.dialog.classList.add("refused");
    byId("player-close").focus();
    byId("player-title").textContent = "This clip cannot be shown";
    byId("player-note").textContent = error.status === 422 ? "This address names no clip." : error.message;
  }

  #describe() {
    const said = this.hit?.said ?? [];
    this.timeline.show(this.playback.duration, this.#moments(), this.#signs(), this.clip.shots, said);
    this.transcript.show(this.spoken, said);
    fill(
      byId("about"),
      about(this.clip, this.#why(), this.#moments(), this.#signs(), this.transcript.list(), (time) =>
        this.seek(time),
      ),
    );
    this.#shown(this.playback.time);
    const none = this.#moments().length === 0;
    byId("previous-moment").hidden = byId("next-moment").hidden = none;
  }

  #shown(time) {
    this.timeline.move(time);
    this.transcript.move(time);
  }

  #moments() {
    return [...(this.hit?.moments ?? [])].sort((one, other) => one.time_s - other.time_s);
  }

  /** The moment that was opened, for what can be done with it. */
  #stretch(time) {
    const far = (one) => Math.abs(one.time_s - time);
    const [nearest] = this.#moments().sort((one, other) => far(one) - far(other));
    const { start_s = null, end_s = null } = nearest ?? {};
    return { clip_id: this.clipId, name: this.clip.name, start_s, end_s };
  }

  #why() {
    if (!this.hit?.why) return null;
    return element("section", { class: "explained" }, element("h3", {}, "Why this result"), this.hit.why());
  }

  /** All words on screen, those that the search matched with their marks. */
  #signs() {
    const key = (sign) => `${sign.start_s.toFixed(3)} ${sign.text}`;
    const matched = new Map((this.hit?.on_screen ?? []).map((sign) => [key(sign), sign]));
    return this.clip.signs.filter(hasText).map((sign) => matched.get(key(sign)) ?? sign);
  }

  #listen() {
    this.dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.wishes.close();
    });
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.wishes.close());
    this.dialog.addEventListener("keydown", (event) => this.#key(event));
    byId("player-close").addEventListener("click", () => this.wishes.close());
    byId("player-link").addEventListener("click", () => this.#copyLink());
    byId("player-like").addEventListener("click", () => this.wishes.like?.(this.clipId, this.playback.time));
    byId("play").addEventListener("click", () => this.playback.toggle());
    byId("video").addEventListener("click", () => this.playback.toggle());
    byId("video").addEventListener("pause", () => this.#tellMovedSoon());
    byId("previous-moment").addEventListener("click", () => this.#toMoment(-1));
    byId("next-moment").addEventListener("click", () => this.#toMoment(1));
    byId("mute").addEventListener("click", () => (byId("video").muted = !byId("video").muted));
    byId("full").addEventListener("click", () => this.#full());
    byId("frame-back").addEventListener("click", () => this.#step(-1));
    byId("frame-on").addEventListener("click", () => this.#step(1));
    this.#offerSpeeds();
    byId("full").hidden = !document.fullscreenEnabled;
    byId("frame").addEventListener("error", () => (byId("frame").hidden = true));
  }

  #offerSpeeds() {
    const option = (speed) => element("option", { value: speed, selected: speed === 1 }, `${speed}×`);
    fill(byId("speed"), SPEEDS.map(option));
    byId("speed").addEventListener("change", () => this.#setSpeed(Number(byId("speed").value)));
  }

  /** Also for what is loaded next: a video goes back to its default with each source. */
  #setSpeed(speed) {
    byId("speed").value = String(speed);
    const video = byId("video");
    video.defaultPlaybackRate = video.playbackRate = speed;
  }

  #changeSpeed(direction) {
    const at = SPEEDS.indexOf(Number(byId("speed").value)) + direction;
    if (SPEEDS[at]) this.#setSpeed(SPEEDS[at]);
  }

  /** To the middle of the next frame, or of the one before: an edge might be taken for either. */
  #step(frames) {
    if (this.playback.playing) this.playback.toggle();
    const fps = this.clip?.fps || USUAL_FPS;
    const frame = Math.floor(this.playback.time * fps + 1e-6) + frames;
    this.seek(Math.max(0, (frame + 0.5) / fps));
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.closest("input[type=search], select")) return;
    if (event.key === " " && event.target.closest("button, a, summary")) return;
    const step = this.playback.duration > SHORT_CLIP_S ? STEP_S : SHORT_STEP_S;
    const acts = {
      " ": () => this.playback.toggle(),
      k: () => this.playback.toggle(),
      ArrowLeft: () => this.seek(this.playback.time - step),
      ArrowRight: () => this.seek(this.playback.time + step),
      ",": () => this.#step(-1),
      ".": () => this.#step(1),
      "<": () => this.#changeSpeed(-1),
      ">": () => this.#changeSpeed(1),
      n: () => this.#toMoment(1),
      p: () => this.#toMoment(-1),
      m: () => byId("mute").click(),
      f: () => this.#full(),
    };
    if (!Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    acts[event.key]();
  }

  #toMoment(direction) {
    const now = this.playback.time;
    const times = this.#moments().map((moment) => moment.time_s);
    const to =
      direction > 0
        ? times.find((time) => time > now + SAME_MOMENT_S)
        : times.findLast((time) => time < now - 2 * SAME_MOMENT_S);
    if (to !== undefined) this.seek(to);
  }

  #tellMovedSoon() {
    clearTimeout(this.telling);
    this.telling = setTimeout(() => this.#tellMoved(), TELL_MS);
  }

  #tellMoved() {
    if (this.clip) this.wishes.moved(this.playback.time);
  }

  #changed() {
    const { playing, playable, duration } = this.playback;
    label(byId("play"), playing ? "Pause" : "Play", playing ? "pause" : "play");
    byId("play").disabled = !playable;
    const { muted } = byId("video");
    label(byId("mute"), muted ? "Sound on" : "Mute", muted ? "muted" : "sound");
    byId("mute").hidden = this.playback.mode !== "original";
    if (this.clip && duration !== this.timeline.duration) this.#describe();
  }

  #waiting(sentence) {
    byId("player-waiting").textContent = sentence;
    byId("player-waiting").hidden = !sentence;
  }

  #pictured(address) {
    byId("frame").hidden = address === null;
    byId("video").hidden = address !== null;
    if (address) byId("frame").src = address;
    else byId("frame").removeAttribute("src");
  }

  #full() {
    if (document.fullscreenElement) document.exitFullscreen();
    else byId("stage").requestFullscreen?.();
  }

  async #copyLink() {
    this.#tellMoved();
    const said = byId("player-link").querySelector("span");
    try {
      await navigator.clipboard.writeText(location.href);
      said.textContent = "Copied";
    } catch {
      // Browsers keep the clipboard from pages that come without https from another machine.
      said.textContent = "Copy it from the address bar";
    }
    setTimeout(() => (said.textContent = "Copy link"), COPIED_MS);
  }
}

function label(button, text, symbol) {
  button.setAttribute("aria-label", text);
  button.title = text;
  fill(button, icon(symbol));
}

class FileRow {
  /** Show the path of a clip: the part below the indexed folder, or all of it at the server's machine. */
  async show(clip, opensFolders) {
    this.request?.abort();
    const request = (this.request = new AbortController());
    const file = clip.files.find(({ state }) => state === "indexed") ?? clip.files[0];
    if (!file) return;
    this.#fill(file.folder ? `${file.folder}/${file.name}` : file.name, null);
    if (!opensFolders) return;
    try {
      const { path } = await filePlace(clip.clip_id, request.signal);
      this.#fill(path, () => openFolder(clip.clip_id));
    } catch (error) {
      if (!request.signal.aborted && !(error instanceof ApiError)) throw error; // the part of it stays
    }
  }

  #fill(path, open) {
    fill(
      byId("player-file"),
      element("code", { dir: "ltr" }, breakable(path)),
      button("Copy path", "copy", () => navigator.clipboard.writeText(path), "Copied"),
      open && button("Open folder", "folder", open, "Opened"),
    );
  }
}

/** A button that says for a moment what came of it. */
function button(text, symbol, act, done) {
  const said = element("span", {}, text);
  const tell = (words) => {
    said.textContent = words;
    setTimeout(() => (said.textContent = text), COPIED_MS);
  };
  const press = async () => {
    try {
      await act();
      tell(done);
    } catch (error) {
      // Browsers keep the clipboard from pages that come without https from another machine.
      tell(error instanceof ApiError ? error.message : "Select and copy it");
    }
  };
  return element("button", { type: "button", class: "quiet small", onclick: press }, icon(symbol), said);
}
