// A clip in a <video>, on the clip's own timeline: the original; where the browser cannot show that, small silent
// parts of it; failing those, the still of the moment.

import { preview, refusal, stillAddress } from "./api.js";

const PREVIEW_NOTE = "This browser cannot play the original. This is a small preview without sound.";
const STILL_NOTE = "This browser cannot play the clip. This is a still of it.";
const STILL_WIDTH_PX = 1280;
const SOON_S = 0.25;
const SHORT_BY_S = 1;

/** Containers that browsers deny and yet play, where they know the codec. */
const ALSO_PLAYED = /^video\/(quicktime|x-matroska)/;

/**
 * Who is told what happens.
 *
 * @typedef {object} Listener
 * @property {(time: number) => void} moved the time in the clip, in seconds
 * @property {() => void} changed it was started, stopped, or its length became known
 * @property {(sentence: string) => void} noted what is shown in the place of the original, and why
 * @property {(sentence: string) => void} waiting what is being waited for; empty when it came
 * @property {(address: string | null) => void} pictured a still in the place of the video
 */

export class Playback {
  constructor(video, listener) {
    this.video = video;
    this.listener = listener;
    this.#forget();
    video.addEventListener("loadedmetadata", () => this.#begin());
    video.addEventListener("error", () => this.#fail());
    video.addEventListener("ended", () => this.#end());
    for (const name of ["play", "pause", "volumechange"]) video.addEventListener(name, () => listener.changed());
    for (const name of ["timeupdate", "seeking", "seeked"]) video.addEventListener(name, () => this.#tell());
  }

  /** Seconds from the start of the clip, whatever is shown of it. */
  get time() {
    return this.settled ? this.offset + this.video.currentTime : this.wanted;
  }

  /** Length of the clip in seconds. */
  get duration() {
    const known = this.clip?.duration_s;
    if (known) return known;
    return this.mode === "original" && Number.isFinite(this.video.duration) ? this.video.duration : 0;
  }

  /** Whether it runs. */
  get playing() {
    return this.mode !== "still" && (this.settled ? !this.video.paused : this.run);
  }

  /** Whether there is anything to start and stop. */
  get playable() {
    return this.mode === "original" || this.mode === "preview";
  }

  /** Show a clip from a time on. */
  open(clip, time, run) {
    this.close();
    this.clip = clip;
    this.wanted = time;
    this.run = run;
    if (this.video.canPlayType(clip.media_type.replace(ALSO_PLAYED, "video/mp4"))) this.#original();
    else this.#part();
  }

  /** Let go of the clip, its connection and its memory. */
  close() {
    this.loading?.abort();
    if (this.copy) URL.revokeObjectURL(this.copy);
    this.#forget();
    this.video.pause();
    this.video.removeAttribute("src");
    this.video.load();
    this.listener.noted("");
    this.listener.waiting("");
    this.listener.pictured(null);
  }

  /** Go to a time of the clip. */
  seek(time) {
    if (!this.clip) return;
    this.wanted = Math.min(Math.max(0, time), this.duration || time);
    if (this.mode === "still") this.#picture();
    else if (this.mode === "preview" && this.#partOf(this.wanted) !== this.part) this.#part();
    else if (this.settled) this.video.currentTime = this.wanted - this.offset;
    this.#tell();
  }

  /** Start or stop. */
  toggle() {
    this.run = !this.playing;
    if (!this.settled) return;
    if (this.run) this.#play();
    else this.video.pause();
  }

  #forget() {
    this.clip = null;
    this.mode = null;
    this.part = null;
    this.copy = null;
    this.loading = null;
    this.offset = 0; // of what is loaded, in the clip
    this.wanted = 0; // where to go as soon as something is loaded
    this.settled = false; // whether the video is where it is wanted
    this.run = false;
  }

  #tell() {
    if (this.clip) this.listener.moved(this.time);
  }

  #original() {
    this.mode = "original";
    this.listener.waiting("Loading…");
    this.video.src = this.clip.media + (this.clip.starts_s ? "" : `#t=${this.wanted}`);
  }

  #begin() {
    if (!this.playable) return;
    if (this.mode === "original" && !this.#understood()) {
      this.#part();
      return;
    }
    this.video.currentTime = this.wanted - this.offset;
    this.settled = true;
    this.listener.waiting("");
    this.listener.changed();
    if (this.run) this.#play();
  }

  /** Whether the browser shows pictures, and at times that can be told from ours. */
  #understood() {
    // Sound without a picture: a codec that the browser lacks in a container that it knows.
    if (this.video.videoWidth === 0) return false;
    // A file that starts late by its own clock is played by that clock where the browser's length reaches to its end.
    // Else some browsers count from 0 and others stop too soon.
    const own = this.clip.starts_s;
    const byOwnClock = this.video.duration > own + this.clip.duration_s - SHORT_BY_S;
    this.offset = byOwnClock ? -own : 0;
    return byOwnClock || own < SOON_S;
  }

  #play() {
    // Refused where the page was not touched yet (an address that was opened): it waits for the button.
    this.video.play().catch(() => this.listener.changed());
  }

  async #fail() {
    if (!this.playable || !this.video.getAttribute("src")) return;
    if (this.mode === "preview") {
      this.#still(STILL_NOTE);
      return;
    }
    const request = this.#newRequest();
    try {
      const why = await refusal(this.clip.media, request.signal);
      if (why) this.#still(why.message);
      else this.#part();
    } catch (error) {
      if (!request.signal.aborted) throw error;
    }
  }

  #partOf(time) {
    return Math.floor(time / this.clip.preview_part_s + 1e-9);
  }

  async #part() {
    const request = this.#newRequest();
    this.mode = "preview";
    this.settled = false;
    this.part = this.#partOf(this.wanted);
    this.video.pause();
    this.listener.noted(PREVIEW_NOTE);
    this.listener.waiting("Making a preview…");
    try {
      const copy = await preview(this.clip.clip_id, this.part, request.signal);
      this.#load(copy);
    } catch (error) {
      if (!request.signal.aborted) this.#still(`${error.message} ${STILL_NOTE}`);
    }
  }

  #load(copy) {
    if (this.copy) URL.revokeObjectURL(this.copy);
    this.copy = URL.createObjectURL(copy);
    this.offset = this.part * this.clip.preview_part_s;
    this.video.src = this.copy;
  }

  #newRequest() {
    this.loading?.abort();
    this.loading = new AbortController();
    return this.loading;
  }

  #end() {
    const next = (this.part + 1) * this.clip.preview_part_s;
    if (this.mode !== "preview" || next > this.duration - 0.05) return;
    this.wanted = next;
    this.run = true;
    this.#part();
  }

  #still(sentence) {
    this.wanted = this.time;
    this.mode = "still";
    this.settled = false;
    this.video.removeAttribute("src");
    this.video.load();
    this.listener.waiting("");
    this.listener.noted(sentence);
    this.listener.changed();
    this.#picture();
  }

  #picture() {
    this.listener.pictured(stillAddress(this.clip.clip_id, this.wanted, STILL_WIDTH_PX));
  }
}
